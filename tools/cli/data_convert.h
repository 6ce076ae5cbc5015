// Files of records in one format written as another: the records of all sources in their order, in parts.
//
//   auto converted = ConvertRecords({.sources = {"day-*.csv"}, .folder = "out", .format = kTfRecordFormat,
//                                    .packing = Packing::kGzip, .spec_of = spec_of});
//
// Shapes: out/part-00000.tfrecord.gz and so on. A source of the same format whose records name their fields is
//   copied as it is. Otherwise fields have the names that `downpour data head` shows, those of all sources, and
//   the types that FieldSurvey finds. docs/DATA.md says what becomes of them.
// Order: nothing is written before all records were read once. The parts get their names when all of them are whole.
// Cost: two passes, three of JSON lines and TFRecord, whose records name their fields; memory of a record, of what was
//   seen of each field, and of a group of Parquet.
// Errors: those of reading, with file and place; INVALID_ARGUMENT for what the format cannot hold, with its place;
//   ALREADY_EXISTS where the folder has parts, or another one writes there; those of PackedFile. No part is left then.
// Tests: tests/unit/tools/cli/data_convert_test.cc, tests/process/test_data_convert.py.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/byte_source.h"
#include "data/byte_stream.h"
#include "job/data_spec.h"
#include "tools/cli/data_stats.h"

namespace downpour {

struct ConvertOptions {
  std::vector<std::string> sources;  // as ExpandFiles takes them
  std::string folder;                // made if need be
  std::string format;                // csv, jsonl or tfrecord
  Packing packing = Packing::kNone;
  uint64_t records_per_file = 0;  // 0: all in one
  uint64_t skip = 0;              // records that cannot be read, at most
  std::function<absl::StatusOr<DataSpec>(const ByteSource&)> spec_of;
};

struct ConvertedPart {
  std::string path;
  uint64_t records = 0;
};

struct Converted {
  std::vector<ConvertedPart> parts;
  BadRecords bad;                  // left out
  std::vector<std::string> notes;  // what is not as it was
};

absl::StatusOr<Converted> ConvertRecords(const ConvertOptions& options);

}  // namespace downpour
