// What changed in a table between two checkpoints of a job: rows that are new or have other values, and keys whose rows
// are gone. A system that serves predictions takes it up instead of the whole table.
//
//   absl::StatusOr<std::vector<TableDelta>> deltas = CompareTables(before, after);
//   absl::StatusOr<TableDelta> delta = WriteDelta(before, after, table, DeltaFormat::kCsv, "users.csv");
//
// Shapes: safetensors: `ids` int64 [n] and `values` float32 [n, width], and `gone` int64 [m]. CSV: as exported_rows.h
//   has it.
// Order: bucket by bucket; rows as they lie in the later checkpoint, then gone keys, ascending.
// Cost: memory for one bucket of the earlier checkpoint; each is read once, and for safetensors twice.
// Errors: those of ReadTableParts and NewFile; INVALID_ARGUMENT where the two do not have the table alike.
// Tests: tests/unit/tools/cli/verb_table_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/checkpoint_reader.h"

namespace downpour {

struct TableDelta {
  uint64_t born = 0;     // rows that were not there
  uint64_t changed = 0;  // with other values
  uint64_t same = 0;
  uint64_t gone = 0;
  double moved = 0;  // of those that changed, the sum of the Euclidean norms of their changes
  double most_moved = 0;
  uint64_t most_moved_key = 0;
  double mean_moved() const { return changed == 0 ? 0 : moved / static_cast<double>(changed); }
};

enum class DeltaFormat { kSafetensors, kCsv };

// Of every table, in the order of the job.
absl::StatusOr<std::vector<TableDelta>> CompareTables(const Checkpoint& before, const Checkpoint& after);
// `table`: its place in the job. The file is there whole, or as it was.
absl::StatusOr<TableDelta> WriteDelta(const Checkpoint& before, const Checkpoint& after, uint64_t table,
                                      DeltaFormat format, const std::string& path);

// Of every table of the job, for people and for programs (docs/TABLES.md).
std::string DeltasTable(const Checkpoint& after, const std::vector<TableDelta>& deltas);
std::string DeltasJson(const Checkpoint& before, const Checkpoint& after, const std::vector<TableDelta>& deltas);

}  // namespace downpour
