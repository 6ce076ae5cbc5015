// From the fields of a record to a model's columns and its label.
//
//   ColumnReader reader(job.data);
//   auto values = reader.Room(records);                    // of reader.columns()
//   auto status = reader.Take(fields, row, &values);       // the values of reader.fields(), in their order
//
// Shapes: numbers are float, categories and classes int64 from 0, keys any int64. A column of numbers or keys has the
//   width that its spec says, others and the label have 1. Where an example has fewer keys, kNoKey stands behind them.
//   Behind them come the label, of a set of classes label.outputs floats of 0 and 1, and the weight, as far as
//   data.label and data.weight name fields; without a label there is no weight. docs/DATA.md says the rest.
// Cost: no memory is taken for an example.
// Threads: const.
// Errors: INVALID_ARGUMENT with field, text and remedy, without the place.
// Tests: tests/unit/data/columns_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "data/dataset.h"
#include "data/field_column.h"
#include "data/record_format.h"
#include "data/word_hash.h"
#include "job/data_spec.h"

namespace downpour {

// The key that a word has in a column with key: text, from the word's hash: any number but kNoKey.
int64_t KeyOfHash(uint64_t hash);

class ColumnReader {
 public:
  // `data` has what the job's parser accepts, or any other; then Take fails, or values are of no use.
  explicit ColumnReader(const DataSpec& data);

  const std::vector<std::string>& fields() const { return fields_; }  // each once
  const std::vector<Column>& columns() const { return columns_; }

  // For so many examples.
  std::vector<ColumnValues> Room(size_t examples) const;
  // `to` is what Room gave. Nothing is promised of that row where it fails.
  absl::Status Take(absl::Span<const FieldValue> values, size_t row, std::vector<ColumnValues>* to) const;
  // The same of texts alone, faster, where nothing is missing or wrong. False: Take tells what is, or fills it in.
  // `scratch` is of the fields' number, and of no meaning.
  bool TakeTexts(absl::Span<const std::string_view> texts, absl::Span<FieldValue> scratch, size_t row,
                 std::vector<ColumnValues>* to) const;
  // All rows of fields that come by columns, one for each of fields(). `bad` hears of each row that cannot be taken,
  // in their order; an error of its own is returned.
  using BadRow = std::function<absl::Status(size_t row, const absl::Status& why)>;
  absl::Status TakeColumns(absl::Span<const FieldColumn> fields, size_t rows, const BadRow& bad,
                           std::vector<ColumnValues>* to) const;

 private:
  struct Hasher {
    using is_transparent = void;
    size_t operator()(std::string_view word) const { return HashWord(word); }
  };
  using Places = std::unordered_map<std::string, int64_t, Hasher, std::equal_to<>>;
  // How TakeTexts takes a column, and from which of fields().
  struct FromText {
    enum class Way { kNumber, kTransformed, kHash, kVocabulary, kOther } way = Way::kOther;
    size_t field = 0;
  };

  FromText WayOf(size_t column) const;
  void AddLabel();  // and the weight
  size_t PlaceOf(const std::string& field);
  absl::Status TakeOne(size_t column, absl::Span<const FieldValue> values, size_t row, ColumnValues* to) const;
  // Whether the column was taken as a whole, as one of plain numbers can be that are all there.
  bool TakePlainNumbers(size_t column, const FieldColumn& field, size_t rows, ColumnValues* to) const;
  // As many as the column's width; each one that is missing becomes the column's default.
  absl::Status TakeNumbers(const ColumnSpec& spec, const FieldValue& value, absl::Span<float> to) const;
  absl::Status TakeNumber(const ColumnSpec& spec, const FieldValue& value, double* number) const;
  // What the field has, then kNoKey up to the column's width.
  absl::Status TakeKeys(const ColumnSpec& spec, const FieldValue& value, absl::Span<int64_t> to) const;
  absl::Status TakeKey(const ColumnSpec& spec, const FieldValue& value, int64_t* key) const;
  absl::Status TakeLabel(const FieldValue& value, size_t row, ColumnValues* to) const;
  absl::Status TakeClass(const FieldValue& value, int64_t* to) const;
  // Of a set: 1 for each class that is in it.
  absl::Status TakeSet(absl::Span<const FieldValue> values, absl::Span<float> to) const;
  absl::Status AddClasses(const FieldValue& value, absl::Span<float> to) const;
  absl::Status TakeWeight(const FieldValue& value, float* to) const;
  // What to do about a value: for who has the data of a job, and where there is no label for who asks a model.
  std::string Remedy(const std::string& of_data, const std::string& of_request) const;
  int64_t CategoryOf(size_t column, absl::Span<const FieldValue> values) const;
  int64_t CategoryOfWord(size_t column, std::string_view word) const;  // of a vocabulary
  int64_t CategoryOfHash(size_t column, uint64_t hash) const;
  uint64_t HashOf(size_t column, absl::Span<const FieldValue> values) const;  // of all its fields, crossed

  const std::vector<ColumnSpec> specs_;
  const LabelSpec label_;
  const std::string weight_;
  const char decimal_;
  std::vector<std::string> fields_;
  std::vector<Column> columns_;
  std::vector<std::vector<size_t>> from_;  // of each column, also of label and weight: places in fields_
  std::vector<FromText> from_text_;        // of each column
  KeyWidths keys_;
  std::vector<Places> words_;  // of each column of a vocabulary
  Places classes_;             // of words, and of what LabelKey makes of them
};

}  // namespace downpour
