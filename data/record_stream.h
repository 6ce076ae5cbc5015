// RecordStream: the wanted fields of a file's records from the first to the last, whatever its format is.
//
//   auto stream = OpenRecordStream(data, *source, {"age", "sex"});
//   std::vector<FieldValue> values(2);
//   while (*(*stream)->Next(absl::MakeSpan(values), &read)) ...
//
// Cost: one pass; memory of one record, or of one piece of a row group.
// Errors: those of RecordScanner and RowGroups, with file and place; of one record alone `read`, without them.
// Tests: tests/unit/data/row_group_file_test.cc, tests/unit/tools/cli/record_stats_test.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/byte_source.h"
#include "data/record_format.h"
#include "job/data_spec.h"

namespace downpour {

class RecordStream {
 public:
  virtual ~RecordStream() = default;
  // False at the end. Values stay until the next call; there are none where `read` is not OK.
  virtual absl::StatusOr<bool> Next(absl::Span<FieldValue> values, absl::Status* read) = 0;
  virtual std::string place() const = 0;  // of what was read last
};

// `wanted`: fields of the file. Errors: those of RecordFile::NewReader. The source outlives the stream.
absl::StatusOr<std::unique_ptr<RecordStream>> OpenRecordStream(const DataSpec& data, const ByteSource& source,
                                                               const std::vector<std::string>& wanted);

}  // namespace downpour
