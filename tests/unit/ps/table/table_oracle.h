// TableOracle: what a table's bucket is to hold, in a std::map and without a thought of speed. It has a row for each
// key, and forgets nothing but by the rules of ps/table/table_bucket.h.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ps/table/table_bucket.h"
#include "ps/table/table_installer.h"
#include "runtime/prng.h"

namespace downpour {

struct OracleRow {
  uint64_t last = 0;
  std::vector<float> values;
  std::vector<std::vector<float>> slots;
  bool operator==(const OracleRow&) const = default;
};

class TableOracle {
 public:
  explicit TableOracle(const TableSpec& spec) : spec_(spec) {}

  std::vector<float> Gather(uint64_t key) const {
    const auto found = rows_.find(key);
    return found == rows_.end() ? Initial(key) : found->second.values;
  }

  PushEffect Apply(const std::vector<uint64_t>& keys, const std::vector<float>& gradients, const Update& fresh,
                   const std::optional<Update>& stale, uint64_t pulled_at) {
    PushEffect effect;
    bool finite = true;
    for (float g : gradients) finite = finite && std::isfinite(g);
    effect.skipped = !finite;
    for (size_t i = 0; finite && i < keys.size(); ++i) {
      auto row = rows_.find(keys[i]);
      const bool is_stale = stale && row != rows_.end() && row->second.last > pulled_at;
      if (row == rows_.end()) {
        if (spec_.admit_after > 1) {
          Count& count = counts_[keys[i]];
          count.last = clock + 1;
          if (++count.pushes < spec_.admit_after) {
            ++effect.counted;
            continue;
          }
        }
        if (spec_.max_rows > 0 && rows_.size() >= spec_.max_rows) {
          ++effect.unborn;
          continue;
        }
        counts_.erase(keys[i]);
        ++effect.born;
        row = rows_.emplace(keys[i], Born(keys[i])).first;
      }
      row->second.last = clock + 1;
      Step(is_stale ? *stale : fresh, {gradients.data() + i * spec_.width, spec_.width}, &row->second);
    }
    unborn += effect.unborn;
    ++clock;
    if (spec_.evict_after > 0) {
      std::erase_if(rows_, [&](const auto& row) { return clock - row.second.last >= spec_.evict_after; });
      std::erase_if(counts_, [&](const auto& count) { return clock - count.second.last >= spec_.evict_after; });
    }
    return effect;
  }

  // With these alone, as after a restore onto another number of buckets. Ages stay.
  void Restrict(const TableSpec& spec, uint64_t clock_there) {
    const auto foreign = [&](const auto& entry) { return BucketOf(spec.id, entry.first, spec.buckets) != spec.bucket; };
    std::erase_if(rows_, foreign);
    std::erase_if(counts_, foreign);
    for (auto& [key, row] : rows_) row.last += clock_there - clock;
    for (auto& [key, count] : counts_) count.last += clock_there - clock;
    clock = clock_there;
    spec_ = spec;
  }
  void Merge(const TableOracle& other) {
    ASSERT_EQ(clock, other.clock);
    rows_.insert(other.rows_.begin(), other.rows_.end());
    counts_.insert(other.counts_.begin(), other.counts_.end());
    unborn += other.unborn;
  }

  const std::map<uint64_t, OracleRow>& rows() const { return rows_; }
  const TableSpec& spec() const { return spec_; }

  uint64_t clock = 0;
  uint64_t unborn = 0;

 private:
  struct Count {
    uint64_t pushes = 0;
    uint64_t last = 0;
  };

  std::vector<float> Initial(uint64_t key) const {
    std::vector<float> values(spec_.width);
    InitialRow(spec_, key, values.data());
    return values;
  }
  OracleRow Born(uint64_t key) const {
    const RowShape shape = ShapeOf(spec_);
    return {0, Initial(key), {shape.slots, std::vector<float>(shape.slot_width())}};
  }
  void Step(const Update& update, absl::Span<const float> gradient, OracleRow* row) const {
    if (spec_.row_wise) return StepByMean(std::get<SquaresUpdate>(update), gradient, row);
    std::vector<UpdatedArray> arrays = {{row->values.data(), row->values.data()}};
    for (std::vector<float>& slot : row->slots) arrays.push_back({slot.data(), slot.data()});
    ASSERT_TRUE(ApplyUpdate(update, gradient, arrays));
    Round(row);
  }
  void StepByMean(const SquaresUpdate& u, absl::Span<const float> g, OracleRow* row) const {
    float sums[16] = {};
    for (size_t i = 0; i < g.size(); ++i) sums[i % 16] += g[i] * g[i];
    for (size_t half = 8; half > 0; half /= 2) {
      for (size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
    }
    float& slot = row->slots[0][0];
    slot += sums[0] / static_cast<float>(g.size());
    for (size_t i = 0; i < g.size(); ++i) {
      row->values[i] -= u.learning_rate * g[i] / (std::sqrt(slot + u.start) + u.epsilon);
    }
    Round(row);
  }
  void Round(OracleRow* row) const {
    if (!spec_.halves) return;
    std::vector<Bf16> halves(row->values.size());
    RoundToBf16(row->values, halves.data());
    WidenBf16(halves, row->values.data());
  }

  TableSpec spec_;
  std::map<uint64_t, OracleRow> rows_;
  std::map<uint64_t, Count> counts_;
};

// A bucket and its oracle, which get the same pushes.
class TablePair {
 public:
  static constexpr uint64_t kKeys = 40;

  TablePair(const TableSpec& spec, uint64_t seed, uint64_t copy = 1) : bucket(spec, copy), oracle(spec), prng_(seed) {
    while (keys_.size() < kKeys) {
      const uint64_t key = keys_.empty() ? 0 : prng_.Next();
      if (BucketOf(spec.id, key, spec.buckets) == spec.bucket || keys_.empty()) keys_.push_back(key);
    }
    if (BucketOf(spec.id, 0, spec.buckets) != spec.bucket) keys_.erase(keys_.begin());
  }

  Update Rule() const {
    const bool later = bucket.clock() % 3 == 2;
    switch (bucket.spec().optimizer) {
      case OptimizerKind::kAdagrad:
        return SquaresUpdate{.learning_rate = later ? 0.05f : 0.1f, .start = 0.1f, .epsilon = 1e-10f};
      case OptimizerKind::kAdam:
        return MakeAdamUpdate(0.01, 0.9, 0.999, 1e-8, bucket.clock() + 1);
      case OptimizerKind::kFtrl:
        return FtrlUpdate{.learning_rate = 0.1f, .beta = 1, .l1 = 0.01f, .l2 = 0.1f};
      default:
        return SgdUpdate{later ? 0.05f : 0.1f};
    }
  }

  // A push of some keys, now and then of none, and seldom of one that is not finite.
  void Push() {
    std::vector<uint64_t> keys;
    const uint64_t hot = 1 + prng_.Below(keys_.size());
    for (uint64_t key : keys_) {
      if (prng_.Below(keys_.size()) < hot / 3) keys.push_back(key);
    }
    if (prng_.Chance(0.1)) keys.clear();
    for (size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[prng_.Below(i)]);
    std::vector<float> gradients(keys.size() * bucket.spec().width);
    for (float& g : gradients) g = static_cast<float>(prng_.Uniform()) - 0.5f;
    if (!gradients.empty() && prng_.Chance(0.05)) gradients[prng_.Below(gradients.size())] = NAN;
    Push(keys, gradients);
  }

  void Push(const std::vector<uint64_t>& keys, const std::vector<float>& gradients) {
    std::optional<Update> stale;
    if (prng_.Chance(0.5) && bucket.spec().optimizer == OptimizerKind::kSgd) stale = SgdUpdate{0.01f};
    const uint64_t pulled_at = bucket.clock() - prng_.Below(std::min<uint64_t>(bucket.clock(), 4) + 1);
    const Update fresh = Rule();
    const PushEffect expected = oracle.Apply(keys, gradients, fresh, stale, pulled_at);
    const absl::StatusOr<PushEffect> effect =
        bucket.Apply({keys, absl::MakeConstSpan(gradients), fresh, stale, pulled_at});
    ASSERT_TRUE(effect.ok()) << effect.status();
    EXPECT_EQ(effect->skipped, expected.skipped);
    EXPECT_EQ(effect->born, expected.born);
    EXPECT_EQ(effect->counted, expected.counted);
    EXPECT_EQ(effect->unborn, expected.unborn);
  }

  void ExpectSame() const { ExpectSame(bucket, oracle); }

  void ExpectSame(const TableBucket& found, const TableOracle& expected) const {
    EXPECT_EQ(found.clock(), expected.clock);
    EXPECT_EQ(found.unborn(), expected.unborn);
    const uint32_t width = found.spec().width;
    std::vector<float> values(keys_.size() * width);
    found.Gather(keys_, values.data());
    for (size_t i = 0; i < keys_.size(); ++i) {
      const std::vector<float> own(values.begin() + i * width, values.begin() + (i + 1) * width);
      ASSERT_EQ(own, expected.Gather(keys_[i])) << "key " << keys_[i] << " at clock " << expected.clock;
    }
  }

  const std::vector<uint64_t>& keys() const { return keys_; }
  Prng& prng() { return prng_; }

  TableBucket bucket;
  TableOracle oracle;

 private:
  Prng prng_;
  std::vector<uint64_t> keys_;
};

// Tables of all optimizers and both kinds of values, with and without admission, eviction and a limit.
inline TableSpec DrawSpec(Prng& prng) {
  constexpr OptimizerKind kKinds[] = {OptimizerKind::kSgd, OptimizerKind::kAdagrad, OptimizerKind::kAdam,
                                      OptimizerKind::kFtrl};
  TableSpec spec = {.id = prng.Below(9),
                    .width = static_cast<uint32_t>(1 + prng.Below(20)),
                    .optimizer = kKinds[prng.Below(4)],
                    .seed = prng.Next(),
                    .initial = 0.25f,
                    .admission_counts = 1 << 12};
  spec.row_wise = spec.optimizer == OptimizerKind::kAdagrad && prng.Chance(0.5);
  spec.halves = prng.Chance(0.3);
  if (prng.Chance(0.5)) spec.admit_after = 2 + static_cast<uint32_t>(prng.Below(2));
  if (prng.Chance(0.5)) spec.evict_after = 1 + static_cast<uint32_t>(prng.Below(6));
  if (prng.Chance(0.5)) spec.max_rows = 5 + prng.Below(30);
  return spec;
}

inline std::vector<Payload> RestOfRecord(TableBucket& bucket, size_t max_bytes = 1 << 20) {
  std::vector<Payload> parts;
  while (bucket.recording()) parts.push_back(bucket.NextPart(max_bytes));
  return parts;
}

inline absl::StatusOr<TableBucket> Install(const TableSpec& spec, const std::vector<Payload>& parts,
                                           uint64_t copy = 77) {
  TableInstaller installer(spec, copy);
  for (const Payload& part : parts) {
    if (absl::Status status = installer.Add(part.bytes()); !status.ok()) return status;
  }
  return std::move(installer).Finish();
}

}  // namespace downpour
