// The seam of formats whose files are records one behind the other: how a file is cut into records, and what the
// fields of one record are. What is built on it (columns, labels, index, order) is the same for all of them.
//
//   auto file = OpenRecordFile(job.data, *source);
//   const absl::StatusOr<CutRecord> cut = (*file)->Cut(text, at_end);
//   auto reader = (*file)->NewReader({"age", "sex"});
//   std::vector<FieldValue> values(2);
//   auto status = (*reader)->Read(text.substr(0, cut->bytes), absl::MakeSpan(values));
//
// A new format: data/NAME_records.cc with both classes, and its row in data/formats.cc.
// Threads: a RecordFile is const and may be used by several threads, a RecordReader by one.
// Errors: INVALID_ARGUMENT or DATA_LOSS with what is wrong and the remedy, without file and place, which whoever reads
//   puts before them. But OpenRecordFile and NewReader name the file.
// Tests: tests/unit/data/csv_records_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/byte_source.h"
#include "job/data_spec.h"

namespace downpour {

inline constexpr size_t kMostRecord = size_t{16} << 20;  // bytes

// Several numbers of one field; NaN where one is missing.
using FieldList = absl::Span<const double>;
// Several keys of one field (data/key_items.h), as the file has them. In a list that is copied also what no key is.
using FieldItem = std::variant<std::string_view, int64_t, uint64_t, double, bool, std::monostate>;
using FieldItems = absl::Span<const FieldItem>;
// Of one field in one record: nothing, where the record lacks it; text, as it stands there; where the format has types
// also a number, a truth or several numbers. A whole number that int64_t cannot hold is a uint64_t, where that can. A
// list of one is that one, and an empty one is nothing. Of a field that a column of keys reads, a list is FieldItems.
using FieldValue =
    std::variant<std::monostate, std::string_view, double, int64_t, uint64_t, bool, FieldList, FieldItems>;

// A run of bytes that is one record with all that separates it from the next, or is none, as an empty line.
struct CutRecord {
  size_t bytes = 0;  // 0: more of the file is needed to tell
  bool is_record = true;
};

class RecordReader {
 public:
  virtual ~RecordReader() = default;
  // The wanted fields of one record, as Cut cut it. Text and lists stay until the next call, and as long as `record`.
  // An error is one of this record alone: the next can be read.
  virtual absl::Status Read(std::string_view record, absl::Span<FieldValue> values) = 0;
  // The same, faster, where all of them are text and stand in the record as they are. False: Read tells.
  virtual bool ReadTexts(std::string_view, absl::Span<std::string_view>) { return false; }
};

class RecordFile {
 public:
  virtual ~RecordFile() = default;

  // Where its first record begins, in the unpacked bytes; what stands before is none, as a header.
  virtual uint64_t begin() const { return 0; }
  // On which line that is. 0: the file has no lines, and places in it are offsets.
  virtual uint64_t first_line() const { return 0; }
  // What decides, besides the records' bytes, what is read from them: equal of equal files.
  virtual std::string layout() const = 0;

  // What decides how it is cut, besides its bytes and begin().
  virtual std::string cutting() const { return ""; }

  // `text` begins where a record does, and is at most kMostRecord bytes where more is asked for; `at_end`: nothing
  // follows it. Cuts as far as the end of `text` only where that is certain, so that it does not matter in which pieces
  // a file comes. An error: where the next record begins is not known.
  virtual absl::StatusOr<CutRecord> Cut(std::string_view text, bool at_end) const = 0;
  // Errors: NOT_FOUND for a field that no record of this file can have, with the near names. Where each record names
  // its fields: one that none of the first has, but for columns with a default (data/record_fields.h).
  virtual absl::StatusOr<std::unique_ptr<RecordReader>> NewReader(absl::Span<const std::string> wanted) const = 0;
  // The fields that this record has. Errors: as those of reading it.
  virtual absl::StatusOr<std::vector<std::string>> FieldsOf(std::string_view record) const = 0;
};

// What the beginning of a file tells. The source is not used after it.
absl::StatusOr<std::unique_ptr<RecordFile>> OpenRecordFile(const DataSpec& data, const ByteSource& source);

// By how the file begins: one of the formats with records; csv where nothing else is to be seen.
absl::StatusOr<std::string> GuessRecordFormat(const ByteSource& source);

// For NewReader.
absl::Status CheckFieldsAreIn(const std::vector<std::string>& known, absl::Span<const std::string> fields,
                              const std::string& file);
absl::Status NoSuchField(const std::string& file, const std::string& field, const std::vector<std::string>& known);

}  // namespace downpour
