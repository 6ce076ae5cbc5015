// TFRecord files of tf.train.Example as records (data/record_format.h).
//
// Shapes: a record is [u64 length][u32 checksum of it][data][u32 checksum of that], little-endian; the data are an
//   Example. A field is a key of its features: an int64, a float (as a double), bytes (as text), or a list of several
//   numbers. A feature without values, or of no kind, is nothing. Integers in lists are exact to 2^53.
// Cost: one pass for the checksum and one over the Example; memory of the wanted lists, up to 8 times the record.
// Errors: of a record also a wrong checksum of its data, what is no Example, several bytes in one wanted field. A wrong
//   checksum of a length is the end: nothing says where the next record begins. Files packed as a whole by gzip are
//   unpacked, those by ZLIB are not.
// Source: tensorflow/core/lib/io/record_writer.h and tensorflow/core/example/{example,feature}.proto.
// Tests: tests/unit/data/tfrecord_records_test.cc, tests/process/test_data_files.py.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "data/record_format.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<RecordFile>> OpenTfRecords(const DataSpec& data, const ByteSource& source);

// A record with both of its checksums.
void AppendTfRecord(std::string_view data, std::string* to);

bool LooksLikeTfRecord(std::string_view beginning);

}  // namespace downpour
