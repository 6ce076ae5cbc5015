#include "model/embedding_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

constexpr uint32_t kNoRow = UINT32_MAX;

}  // namespace

EmbeddingRows::EmbeddingRows(const ModelSpec& model, const SliceGrid* grid)
    : grid_(grid), width_(static_cast<size_t>(EmbeddingWidthOf(model))), buckets_(grid->buckets) {
  for (const uint32_t width : grid->row_widths) tables_.push_back({.width = width});
  for (const EmbeddingReader& reader : EmbeddingReadersOf(model)) readers_.push_back({reader});
}

void EmbeddingRows::Begin() {
  for (Table& table : tables_) table.rows.Clear();
  batches_.clear();
  lookups_.clear();
}

void EmbeddingRows::Find(absl::Span<const ColumnValues> columns, size_t examples) {
  batches_.push_back({lookups_.size(), examples});
  for (Reader& reader : readers_) {
    const auto& keys = std::get<std::vector<int64_t>>(columns[reader.column]);
    reader.keys = keys.size() / examples;
    KeyNumbers& rows = tables_[reader.table].rows;
    for (const int64_t key : keys) {
      lookups_.push_back(key == kNoKey ? kNoRow : rows.NumberOf(static_cast<uint64_t>(key)));
    }
  }
}

SliceValues EmbeddingRows::Keys() {
  for (Bucket& bucket : buckets_) {
    bucket.rows.counts.assign(tables_.size(), 0);
    bucket.rows.keys.clear();
    bucket.numbers = 0;
  }
  for (size_t number = 0; number < tables_.size(); ++number) {
    Table& table = tables_[number];
    const std::vector<uint64_t>& keys = table.rows.keys();
    table.buckets.resize(keys.size());
    table.places.resize(keys.size());
    ascending_.clear();
    for (const uint64_t key : keys) ascending_.emplace_back(key, static_cast<uint32_t>(ascending_.size()));
    std::sort(ascending_.begin(), ascending_.end());
    for (const auto& [key, row] : ascending_) {
      table.buckets[row] = BucketOf(number, key, grid_->buckets);
      Bucket& bucket = buckets_[table.buckets[row]];
      table.places[row] = bucket.numbers;
      bucket.rows.keys.push_back(key);
      ++bucket.rows.counts[number];
      bucket.numbers += table.width;
    }
  }
  SliceValues frames;
  size_t numbers = 0;
  for (uint32_t number = 0; number < buckets_.size(); ++number) {
    buckets_[number].first = std::exchange(numbers, numbers + buckets_[number].numbers);
    if (buckets_[number].numbers > 0) frames.emplace_back(grid_->BucketAt(number), PackKeys(buckets_[number].rows));
  }
  for (Table& table : tables_) {
    for (size_t row = 0; row < table.places.size(); ++row) table.places[row] += buckets_[table.buckets[row]].first;
  }
  values_.resize(numbers);
  gradients_.resize(numbers);
  return frames;
}

absl::Status EmbeddingRows::SetRows(const SliceValues& updates) {
  std::vector<bool> there(buckets_.size());
  for (const auto& [id, rows] : updates) {
    if (!grid_->Contains(id) || !grid_->IsBucket(id)) continue;
    const auto number = static_cast<size_t>(grid_->at(id).offset);
    const Bucket& bucket = buckets_[number];
    if (rows.size() != bucket.numbers * sizeof(float)) {
      return absl::InvalidArgumentError(absl::StrCat("rows of ", rows.size(), " bytes for ", bucket.rows.keys.size(),
                                                     " keys of bucket ", number, ", which have ",
                                                     bucket.numbers * sizeof(float)));
    }
    if (!rows.empty()) std::memcpy(values_.data() + bucket.first, rows.data(), rows.size());
    there[number] = true;
  }
  for (size_t number = 0; number < buckets_.size(); ++number) {
    if (there[number] || buckets_[number].numbers == 0) continue;
    return absl::FailedPreconditionError(absl::StrCat("rows of bucket ", number, " did not come with the step"));
  }
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
  return absl::OkStatus();
}

// `use(row, width, example, first, scale)`: a row's place among the numbers of all rows, that of its sum among those of
// the example, and what each number of the row counts in it.
template <typename Use>
void EmbeddingRows::ForEachLookup(size_t batch, const Use& use) const {
  const uint32_t* rows = lookups_.data() + batches_[batch].first;
  for (const Reader& reader : readers_) {
    const Table& table = tables_[reader.table];
    for (size_t example = 0; example < batches_[batch].examples; ++example, rows += reader.keys) {
      const size_t none = static_cast<size_t>(std::count(rows, rows + reader.keys, kNoRow));
      const float scale = PoolingScale(reader.pooling, reader.keys - none);
      for (size_t key = 0; key < reader.keys; ++key) {
        if (rows[key] != kNoRow) use(table.places[rows[key]], table.width, example, reader.first, scale);
      }
    }
  }
}

void EmbeddingRows::Pool(size_t batch, size_t stride, float* to) const {
  for (size_t example = 0; example < batches_[batch].examples; ++example) {
    std::fill_n(to + example * stride, width_, 0.0f);
  }
  ForEachLookup(batch, [&](size_t row, size_t width, size_t example, size_t first, float scale) {
    AddScaled(scale, values_.data() + row, width, to + example * stride + first);
  });
}

void EmbeddingRows::AddGradients(size_t batch, size_t stride, const float* gradients) {
  ForEachLookup(batch, [&](size_t row, size_t width, size_t example, size_t first, float scale) {
    AddScaled(scale, gradients + example * stride + first, width, gradients_.data() + row);
  });
}

void EmbeddingRows::AppendGradients(SliceValues* slices) const {
  for (uint32_t number = 0; number < buckets_.size(); ++number) {
    const Bucket& bucket = buckets_[number];
    if (bucket.numbers == 0) continue;
    const auto gradients = absl::MakeConstSpan(gradients_).subspan(bucket.first, bucket.numbers);
    slices->emplace_back(grid_->BucketAt(number), PackGradients(bucket.rows, gradients));
  }
}

}  // namespace downpour
