// RowStore: rows of fields, kept until there are enough of them for a batch.
//
//   RowStore store(predictor.signature());
//   store.AddRow();
//   store.at(2) = store.Kept(39.0);
//   predictor.Predict(store.batch());
//   store.Clear();
//
// Cost: memory is kept from one batch to the next.
// Tests: tests/unit/predict/row_store_test.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "predict/batch.h"
#include "predict/predictor.h"

namespace downpour {

// Runs of values that do not move until Clear.
template <typename T>
class KeptRuns {
 public:
  absl::Span<T> Allocate(size_t count) {
    if (at_ < chunks_.size() && chunks_[at_].size - used_ < count) NextChunk(count);
    if (at_ == chunks_.size())
      chunks_.push_back({std::make_unique<T[]>(std::max(count, kChunk)), std::max(count, kChunk)});
    const size_t begin = used_;
    used_ += count;
    return {chunks_[at_].values.get() + begin, count};
  }
  absl::Span<const T> Keep(absl::Span<const T> values) {
    const absl::Span<T> kept = Allocate(values.size());
    std::copy(values.begin(), values.end(), kept.begin());
    return kept;
  }
  void Clear() { at_ = used_ = 0; }

 private:
  static constexpr size_t kChunk = 4096;
  struct Chunk {
    std::unique_ptr<T[]> values;
    size_t size = 0;
  };

  void NextChunk(size_t count) {
    while (at_ < chunks_.size() && (used_ > 0 || chunks_[at_].size < count)) {
      ++at_;
      used_ = 0;
    }
  }

  std::vector<Chunk> chunks_;
  size_t at_ = 0;    // the chunk at hand
  size_t used_ = 0;  // of it
};

class RowStore {
 public:
  // The signature outlives this.
  explicit RowStore(const Signature& signature) : signature_(&signature), columns_(signature.inputs.size()) {}

  size_t rows() const { return rows_; }
  void Clear();
  // All of whose fields are missing.
  void AddRow();
  // Of the last row, by the place of an input; and of any row.
  FieldValue& at(size_t input) { return columns_[input].back(); }
  FieldValue& at(size_t input, size_t row) { return columns_[input][row]; }
  // The value with copies of all that it points to.
  FieldValue Kept(const FieldValue& value);
  absl::Span<double> Numbers(size_t count) { return numbers_.Allocate(count); }

  // Views of the rows, until the next call.
  InputBatch batch() const;
  InputBatch row(size_t number) const;

 private:
  const Signature* signature_;
  size_t rows_ = 0;
  std::vector<std::vector<FieldValue>> columns_;  // by input
  KeptRuns<double> numbers_;
  KeptRuns<char> texts_;
  KeptRuns<FieldItem> items_;
};

}  // namespace downpour
