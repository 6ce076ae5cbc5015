// RowGroups: a file that keeps the values of each field in a row, in groups of records, as Parquet does.
//
// Records of such a file are not runs of its bytes, so that no RecordFile can cut it. Its own footer says where values
// lie. RowGroupFile (row_group_file.h) makes of it what a data set reads.
//
//   auto groups = OpenRowGroups(kParquetFormat, *source);
//   auto cursor = (*groups)->NewCursor(0, {"age", "sex"});
//   auto status = (*cursor)->Read(1024, absl::MakeSpan(columns));
//
// Threads: RowGroups is const and may be used by several threads, a cursor by one.
// Errors: DATA_LOSS or INVALID_ARGUMENT, without the file, which whoever reads puts before them; those of the source as
//   they are; RESOURCE_EXHAUSTED for what needs more memory than there is for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/byte_source.h"
#include "data/field_column.h"

namespace downpour {

// A place in a group, from its first record on.
class RowGroupCursor {
 public:
  virtual ~RowGroupCursor() = default;
  // Nothing is read of fields in between, as far as the format can do without.
  virtual absl::Status Skip(uint64_t rows) = 0;
  // The next records, of which there are as many. A column for each wanted field. After an error it is of no use.
  virtual absl::Status Read(uint32_t rows, absl::Span<FieldColumn> columns) = 0;
};

struct RowGroupSize {
  uint64_t rows = 0;
  uint64_t bytes = 0;   // unpacked, as the file claims
  uint64_t values = 0;  // of all fields
};

class RowGroups {
 public:
  virtual ~RowGroups() = default;
  virtual const std::vector<std::string>& fields() const = 0;
  // Names and types: what decides, besides the file's bytes, what is read from them.
  virtual const std::string& layout() const = 0;
  virtual const std::vector<RowGroupSize>& groups() const = 0;
  // The fields are some of fields(). The cursor may outlive this.
  virtual absl::StatusOr<std::unique_ptr<RowGroupCursor>> NewCursor(size_t group,
                                                                    absl::Span<const std::string> fields) const = 0;
};

using RowGroupOpener = absl::StatusOr<std::unique_ptr<RowGroups>> (*)(std::shared_ptr<const ByteSource> source);

// Null: a format whose files are cut into records (record_format.h).
RowGroupOpener RowGroupOpenerOf(const std::string& format);
// Of a format that has an opener, with the file's name in errors. The source outlives what is returned.
absl::StatusOr<std::unique_ptr<RowGroups>> OpenRowGroups(const std::string& format, const ByteSource& source);

// `status` with the file before its words, if they have it not.
absl::Status WithFile(const std::string& file, const absl::Status& status);

}  // namespace downpour
