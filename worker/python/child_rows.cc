#include "worker/python/child_rows.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "runtime/row_frames.h"
#include "schema/limits.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostNumbers = uint64_t{1} << 26;

struct OfTable {
  uint32_t table = 0;
  uint64_t count = 0;
};

absl::Status NotHonest(const std::string& what) {
  return absl::AbortedError("the Python process asks for rows " + what);
}

absl::StatusOr<std::vector<OfTable>> ReadAsked(const Json& asked, size_t tables) {
  std::vector<OfTable> all;
  if (!asked.is_array()) return NotHonest("without saying of which tables");
  for (const Json& one : asked) {
    const bool is_pair =
        one.is_array() && one.size() == 2 && one[0].is_number_unsigned() && one[1].is_number_unsigned();
    if (!is_pair) return NotHonest("without saying of which table, and how many");
    const auto table = one[0].get<uint64_t>();
    if (table >= tables) return NotHonest(absl::StrCat("of table ", table, ", of which there are ", tables));
    if (!all.empty() && table <= all.back().table) return NotHonest("of tables that do not ascend");
    all.push_back({static_cast<uint32_t>(table), one[1].get<uint64_t>()});
  }
  return all;
}

template <typename Rows>
RowKeys KeysOf(const Rows& rows, size_t tables) {
  RowKeys keys{.counts = std::vector<uint32_t>(tables), .keys = {}};
  for (const auto& row : rows) {
    ++keys.counts[row.table];
    keys.keys.push_back(row.key);
  }
  return keys;
}

}  // namespace

uint64_t ChildRows::MostNumbers(const SliceGrid& grid) {
  return std::min(kMostNumbers, uint64_t{grid.buckets} * (kMaxFrameBytes / sizeof(float)));
}

ChildRows::ChildRows(const SliceGrid* grid, std::byte* memory)
    : grid_(grid), memory_(memory), most_(MostNumbers(*grid)), buckets_(grid->buckets) {}

float* ChildRows::values() const { return reinterpret_cast<float*>(memory_ + most_ * sizeof(uint64_t)); }
float* ChildRows::gradients() const { return values() + most_; }

void ChildRows::Begin() {
  for (Bucket& bucket : buckets_) {
    bucket.rows.clear();
    bucket.asked = bucket.bytes = 0;
  }
  numbers_ = laid_ = 0;
}

absl::StatusOr<SliceValues> ChildRows::Ask(const Json& asked) {
  const std::vector<uint32_t>& widths = grid_->row_widths;
  const absl::StatusOr<std::vector<OfTable>> tables = ReadAsked(asked, widths.size());
  if (!tables.ok()) return tables.status();
  for (Bucket& bucket : buckets_) bucket.asked = bucket.rows.size();
  laid_ = numbers_;
  uint64_t at = 0;
  for (const auto& [table, count] : *tables) {
    if (count > (most_ - numbers_) / widths[table]) {
      return NotHonest(absl::StrCat("of more numbers than a step may have: ", most_, "; take smaller batches"));
    }
    uint64_t before = 0;
    for (uint64_t i = 0; i < count; ++i, ++at) {
      uint64_t key;  // read once: the child may write there meanwhile
      std::memcpy(&key, memory_ + at * sizeof(key), sizeof(key));
      if (i > 0 && key <= before) return NotHonest("of keys that do not ascend");
      before = key;
      Bucket& bucket = buckets_[BucketOf(table, key, grid_->buckets)];
      bucket.rows.push_back({key, table, numbers_});
      bucket.bytes += sizeof(key) + widths[table] * sizeof(float);
      numbers_ += widths[table];
    }
  }
  SliceValues frames;
  for (uint32_t number = 0; number < buckets_.size(); ++number) {
    const Bucket& bucket = buckets_[number];
    if (absl::Status status = CheckRowsOfBucket(bucket.bytes + (widths.size() + 1) * sizeof(uint32_t)); !status.ok()) {
      return status;
    }
    if (bucket.rows.size() == bucket.asked) continue;
    const auto fresh = absl::MakeConstSpan(bucket.rows).subspan(bucket.asked);
    frames.emplace_back(grid_->BucketAt(number), PackKeys(KeysOf(fresh, widths.size())));
  }
  return frames;
}

absl::Status ChildRows::Lay(const SliceValues& updates) {
  size_t missing = static_cast<size_t>(std::count_if(
      buckets_.begin(), buckets_.end(), [](const Bucket& bucket) { return bucket.rows.size() > bucket.asked; }));
  for (const auto& [id, rows] : updates) {
    if (!grid_->Contains(id) || !grid_->IsBucket(id)) continue;
    const Bucket& bucket = buckets_[static_cast<size_t>(grid_->at(id).offset)];
    size_t at = 0, i = bucket.asked;
    for (; i < bucket.rows.size(); ++i) {
      const size_t bytes = grid_->row_widths[bucket.rows[i].table] * sizeof(float);
      if (bytes > rows.size() - at) break;
      std::memcpy(values() + bucket.rows[i].first, rows.data() + at, bytes);
      at += bytes;
    }
    if (i < bucket.rows.size() || i == bucket.asked || at != rows.size()) {
      return absl::InvalidArgumentError(absl::StrCat("rows of ", rows.size(), " bytes that are not those of the keys"));
    }
    --missing;
  }
  if (missing == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("rows of ", missing, " buckets did not come"));
}

void ChildRows::LayNothing() { std::fill(values() + laid_, values() + numbers_, 0.0f); }

void ChildRows::AppendGradients(SliceValues* slices) const {
  std::vector<Row> rows;
  std::vector<float> numbers;
  for (uint32_t number = 0; number < buckets_.size(); ++number) {
    if (buckets_[number].rows.empty()) continue;
    rows = buckets_[number].rows;
    const auto before = [](const Row& a, const Row& b) { return std::tie(a.table, a.key) < std::tie(b.table, b.key); };
    if (!std::is_sorted(rows.begin(), rows.end(), before)) std::sort(rows.begin(), rows.end(), before);
    numbers.clear();
    for (const Row& row : rows) {
      const float* gradient = gradients() + row.first;
      numbers.insert(numbers.end(), gradient, gradient + grid_->row_widths[row.table]);
    }
    slices->emplace_back(grid_->BucketAt(number), PackGradients(KeysOf(rows, grid_->row_widths.size()), numbers));
  }
}

}  // namespace downpour
