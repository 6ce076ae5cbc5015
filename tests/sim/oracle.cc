#include "tests/sim/oracle.h"

#include <glog/logging.h>

#include <limits>

#include "ps/bucket_writer.h"
#include "ps/table/bucket_rows.h"
#include "runtime/initial_values.h"
#include "runtime/prng.h"
#include "tensor/apply_kernels.h"

namespace downpour {
namespace {

uint64_t NameHash(LeaseId lease, Step step, SliceId slice) { return MixAll(ToNumber(lease), step, ToNumber(slice)); }

}  // namespace

Oracle::Oracle(const JobSpec& job, uint64_t train_examples, OracleShares shares)
    : job_(job), grid_(GridOf(job.model, job.training.wire).value()), plan_(job, train_examples), shares_(shares) {
  constexpr uint64_t kKeysOfTable = 24;
  for (uint32_t bucket = 0; bucket < grid_.buckets; ++bucket) {
    RowKeys& keys = all_keys_.emplace_back();
    for (uint64_t table = 0; table < grid_.row_widths.size(); ++table) {
      const size_t before = keys.keys.size();
      for (uint64_t key = 0; key < kKeysOfTable; ++key) {
        if (BucketOf(table, key, grid_.buckets) == bucket) keys.keys.push_back(key);
      }
      keys.counts.push_back(static_cast<uint32_t>(keys.keys.size() - before));
    }
  }
}

// At least one, if there is one.
RowKeys Oracle::SomeKeys(uint64_t name, SliceId bucket) const {
  const RowKeys& all = AllKeys(bucket);
  RowKeys some{.counts = std::vector<uint32_t>(all.counts.size()), .keys = {}};
  const size_t always = all.keys.empty() ? 0 : MixAll(name, 1) % all.keys.size();
  size_t place = 0;
  for (size_t table = 0; table < all.counts.size(); ++table) {
    for (uint32_t i = 0; i < all.counts[table]; ++i, ++place) {
      if (place != always && MixAll(name, 2, place) % 4 != 0) continue;
      some.keys.push_back(all.keys[place]);
      ++some.counts[table];
    }
  }
  return some;
}

Payload Oracle::KeysOf(LeaseId lease, Step step, SliceId bucket) const {
  if (KindOf(lease, step, bucket) == Kind::kEmpty) return {};
  return PackKeys(SomeKeys(NameHash(lease, step, bucket), bucket));
}

Payload Oracle::KeysOfBatch(uint64_t batch, SliceId bucket) const {
  const RowKeys keys = SomeKeys(MixAll(batch, ToNumber(bucket)), bucket);
  return keys.keys.empty() ? Payload() : PackKeys(keys);
}

Oracle::Kind Oracle::KindOf(LeaseId lease, Step step, SliceId slice) const {
  if (grid_.IsBucket(slice) && AllKeys(slice).keys.empty()) return Kind::kEmpty;
  Prng prng(MixAll(job_.seed, NameHash(lease, step, slice)));
  if (prng.Chance(shares_.empty)) return Kind::kEmpty;
  if (prng.Chance(shares_.not_finite)) return Kind::kNotFinite;
  return IsPoison(lease, step, slice) ? Kind::kPoison : Kind::kGradient;
}

bool Oracle::IsPoison(LeaseId lease, Step step, SliceId slice) const {
  if (!shares_.poison || ToNumber(lease) != MixAll(job_.seed, 1) % plan_.total_leases()) return false;
  return step == 1 + MixAll(job_.seed, 2) % plan_.StepsOf(lease) &&
         ToNumber(slice) == MixAll(job_.seed, 3) % grid_.size();
}

int Oracle::Element(uint64_t name, uint64_t index) const { return static_cast<int>(MixAll(name, index) % 7) - 3; }

Payload Oracle::Gradient(LeaseId lease, Step step, SliceId slice) const {
  const Kind kind = KindOf(lease, step, slice);
  if (kind == Kind::kEmpty) return {};
  const uint64_t name = NameHash(lease, step, slice);
  const RowKeys rows = grid_.IsBucket(slice) ? SomeKeys(name, slice) : RowKeys();
  const size_t bytes =
      grid_.IsBucket(slice) ? RowBytes(rows, grid_.row_widths) : static_cast<size_t>(grid_.at(slice).bytes());
  Payload gradient = Payload::Allocate(bytes);
  absl::Span<float> out = gradient.mutable_floats();
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(Element(name, i));
  // The largest float is finite, but what an optimizer makes of it and of small numbers is not, as bfloat16 at least.
  using Limits = std::numeric_limits<float>;
  // A share of it may well be finite, as sync sums them up.
  const bool is_nan = job_.training.consistency == Consistency::kSync || Mix(name) % 2 == 0;
  if (kind == Kind::kNotFinite) out[name % out.size()] = is_nan ? Limits::quiet_NaN() : Limits::max();
  if (grid_.IsBucket(slice)) return PackGradients(rows, gradient.floats());
  return gradient;
}

Payload Oracle::Initial(SliceId slice) const {
  Payload values = Payload::Allocate(static_cast<size_t>(grid_.at(slice).bytes()));
  InitialValues(job_.seed, grid_, slice, values.mutable_floats().data());
  if (job_.model.initialize_from.empty()) return values;
  for (float& value : values.mutable_floats()) value += 0.25f;  // other ones, biases too
  return values;
}

bool Oracle::begins_with_rows() const {
  return grid_.buckets > 0 && !job_.model.initialize_from.empty() && MixAll(job_.seed, 4) % 2 == 0;
}

// Two of three keys have a row, whose numbers an initial row never has. A third of those of the tables lie in parts of
// one row.
std::string Oracle::InitialRecord(SliceId bucket) const {
  std::string record;
  const std::vector<TableSpec> tables = TablesOf(job_);
  const size_t part_bytes = MixAll(job_.seed, 5) % 3 == 0 ? 400 : 4096;
  BucketWriter writer(tables, static_cast<uint32_t>(grid_.at(bucket).offset), part_bytes,
                      [&record](const std::vector<Payload>& blocks) {
                        for (const Payload& block : blocks) record += ToString(block);
                        return absl::OkStatus();
                      });
  CHECK(writer.Begin(bucket).ok());
  const RowKeys& all = AllKeys(bucket);
  size_t place = 0;
  for (size_t table = 0; table < tables.size(); ++table) {
    const RowShape shape = ShapeOf(tables[table]);
    Payload row = Payload::Zeros(shape.bytes());
    const std::vector<float> values(shape.width, 2.5f);
    BeginRow(shape, values.data(), row.mutable_data());
    for (uint32_t i = 0; i < all.counts[table]; ++i, ++place) {
      if (MixAll(place, 6) % 3 != 0) CHECK(writer.Add(all.keys[place], row.data()).ok());
    }
    CHECK(writer.EndTable().ok());
  }
  return record;
}

Payload Oracle::OnWire(const Payload& floats) const {
  if (grid_.wire == WireFormat::kFp32) return floats;
  Payload rounded = Payload::Allocate(floats.size() / 2);
  RoundToBf16(floats.floats(), rounded.mutable_as<Bf16>().data());
  return rounded;
}

std::vector<int64_t> Oracle::Sums(const IntervalSet& leases, SliceId slice) const {
  std::vector<int64_t> sums(static_cast<size_t>(grid_.at(slice).elements), 0);
  for (const IntervalSet::Interval& run : leases.Intervals()) {
    for (uint64_t number = run.begin; number < run.end; ++number) {
      const LeaseId lease{number};
      for (Step step = 1; step <= plan_.StepsOf(lease); ++step) {
        if (KindOf(lease, step, slice) != Kind::kGradient) continue;
        const uint64_t name = NameHash(lease, step, slice);
        for (size_t i = 0; i < sums.size(); ++i) sums[i] += Element(name, i);
      }
    }
  }
  return sums;
}

uint64_t Oracle::Skips(uint64_t leases) const {
  uint64_t skips = 0;
  for (uint64_t lease = 0; lease < leases; ++lease) {
    for (Step step = 1; step <= plan_.StepsOf(LeaseId{lease}); ++step) {
      for (uint32_t slice = 0; slice < grid_.size(); ++slice) skips += IsSkipped(LeaseId{lease}, step, SliceId{slice});
    }
  }
  return skips;
}

uint64_t Oracle::Checksum(const std::vector<int64_t>& sums) {
  uint64_t checksum = 0;
  for (size_t i = 0; i < sums.size(); ++i) checksum += static_cast<uint64_t>(sums[i]) * Mix(i);
  return checksum;
}

}  // namespace downpour
