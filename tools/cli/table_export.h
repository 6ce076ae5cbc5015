// Writes the rows of one table for other programs.
//
// Shapes: safetensors: `ids` int64 [n] and `values` float32 [n, width]. CSV: as exported_rows.h has it.
// Order: bucket by bucket, and within one as the rows lie there: the same for the same checkpoint.
// Cost: a part of a bucket in memory. Safetensors reads the rows twice, since its header says how many there are.
// Errors: those of ReadTableParts and NewFile. The file is there whole, or as it was.
// Tests: tests/unit/tools/cli/verb_table_test.cc.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "checkpoint/checkpoint_reader.h"

namespace downpour {

// `table`: its place in the job. Returns how many rows were written.
absl::StatusOr<uint64_t> ExportTableAsCsv(const Checkpoint& checkpoint, uint64_t table, const std::string& path);
absl::StatusOr<uint64_t> ExportTableAsSafetensors(const Checkpoint& checkpoint, uint64_t table,
                                                  const std::string& path);

}  // namespace downpour
