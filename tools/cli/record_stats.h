// What records have whose format names their fields: as data_stats.h has it of CSV.
//
//   absl::StatusOr<TableStats> stats = RecordStatsOf("jsonl", *source);
//
// Cost: two passes, since any record may have another field; memory as data_stats.h says.
// Errors: those of opening the file and of cutting it into records. A record that cannot be read is counted.
// Tests: tests/unit/tools/cli/record_stats_test.cc, tests/process/test_data_files.py.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "data/byte_source.h"
#include "tools/cli/data_stats.h"

namespace downpour {

inline constexpr size_t kMostShownFields = 1000;

absl::StatusOr<TableStats> RecordStatsOf(const std::string& format, const ByteSource& source);
absl::StatusOr<TableHead> RecordHeadOf(const std::string& format, const ByteSource& source, uint64_t records);

}  // namespace downpour
