// FieldColumn: the values of one field in records that lie in a row, as formats that keep values by columns give them.
//
//   ColumnRows rows(KeyWidthsOf(job.data), reader.fields());
//   auto value = rows.At(field, column, row);       // as a RecordReader has it
//
// Cost: a value of text is copied once; no memory is taken for a record.
// Tests: tests/unit/data/row_group_file_test.cc, tests/process/test_parquet.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/key_items.h"
#include "data/record_format.h"

namespace downpour {

struct FieldColumn {
  enum class Type { kDouble, kInt64, kUint64, kBool, kText };

  Type type = Type::kDouble;
  bool is_list = false;
  std::vector<double> doubles;      // of kDouble, one for each value; where it is missing, anything
  std::vector<int64_t> integers;    // of kInt64, kBool, and of kUint64 its bits
  std::vector<uint64_t> text_ends;  // of kText: where each value ends in `text`
  std::string text;                 //
  std::vector<bool> is_there;       // of each value; empty: all are
  std::vector<uint64_t> ends;       // of lists: of each record, where its values end
  size_t values() const {
    return type == Type::kDouble ? doubles.size() : type == Type::kText ? text_ends.size() : integers.size();
  }
  void Clear();
  std::string_view TextAt(size_t value) const {
    const uint64_t begin = value == 0 ? 0 : text_ends[value - 1];
    return std::string_view(text).substr(begin, text_ends[value] - begin);
  }
};

class ColumnRows {
 public:
  // `keys`: of the fields whose lists are keys.
  ColumnRows(const KeyWidths& keys, absl::Span<const std::string> fields)
      : lists_(fields.size()), items_(KeyItemsFor(keys, fields)) {}

  // Of fields[field]. A list stays until the next call for the same field, a text as long as the column.
  // Errors: INVALID_ARGUMENT for several texts where no column takes keys.
  absl::StatusOr<FieldValue> At(size_t field, const FieldColumn& column, size_t row);

 private:
  std::vector<std::vector<double>> lists_;  // of each field
  std::vector<KeyItems> items_;             // likewise
};

}  // namespace downpour
