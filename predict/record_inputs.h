// RecordInputs: from the fields of rows to the columns of a model that was trained on records, by the transforms of
// training (data/columns.h).
//
//   const RecordInputs inputs(job);
//   RecordInputs::Scratch scratch = inputs.NewScratch(256);
//   absl::StatusOr<std::vector<const InputColumn*>> found = inputs.Match(batch);
//   status = inputs.Read(*found, first, rows, &scratch);      // into scratch.columns, of layout().columns()
//
// Errors: INVALID_ARGUMENT with row, field and remedy.
// Threads: const; a scratch has one.
// Tests: tests/unit/predict/predictor_test.cc.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/columns.h"
#include "data/key_items.h"
#include "job/job.h"
#include "model/input_layout.h"
#include "predict/batch.h"
#include "predict/predictor.h"

namespace downpour {

// For each input of the signature its column; null: the batch has none.
using MatchedColumns = std::vector<const InputColumn*>;

// Errors: INVALID_ARGUMENT for a column that the signature does not have, one that comes twice, one that is needed and
// absent, and for one whose values are not rows times width.
absl::StatusOr<MatchedColumns> MatchColumns(const Signature& signature, const InputBatch& batch);

class RecordInputs {
 public:
  struct Scratch {
    std::vector<ColumnValues> columns;
    std::vector<FieldValue> fields;
    std::vector<std::vector<double>> numbers;  // by field, as are the next
    std::vector<KeyItems> items;
  };

  explicit RecordInputs(const JobSpec& job);

  const std::vector<SignatureInput>& signature() const { return signature_; }
  const InputLayout& layout() const { return layout_; }
  // Of the column of keys by its place among KeyColumnsOf(model).
  size_t KeysOf(size_t column) const {
    return static_cast<size_t>(reader_->columns()[layout_.input_columns() + column].width);
  }

  Scratch NewScratch(size_t rows) const;
  // Rows `first` and on, so many of them, of MatchColumns.
  absl::Status Read(const MatchedColumns& from, size_t first, size_t rows, Scratch* scratch) const;

 private:
  SignatureInput SignatureOf(const std::string& field, const DataSpec& data) const;
  FieldValue ValueAt(const InputColumn& column, size_t row, size_t field, Scratch* scratch) const;

  InputLayout layout_;
  std::optional<ColumnReader> reader_;  // of the layout's columns, in their order
  KeyWidths keys_;
  std::vector<SignatureInput> signature_;    // of the reader's fields
  std::vector<std::optional<double>> fill_;  // what a format has where a field is not there
};

}  // namespace downpour
