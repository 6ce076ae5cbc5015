// RowStats: what a checkpoint holds of each table of its job, in numbers.
//
// Units: norms are Euclidean, of a row's values without its slots. bytes are those of values and slots.
// Cost: reads all rows once, a part at a time.
// Errors: those of ReadTableParts.
// Tests: tests/unit/tools/cli/verb_table_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/checkpoint_reader.h"

namespace downpour {

struct RowStats {
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint64_t counted = 0;  // keys whose pushes are counted, and that have no row yet (admitAfter)
  uint64_t unborn = 0;   // pushes of keys for which there was no room (maxRows)
  double norms = 0;      // their sum
  double largest_norm = 0;
  uint64_t largest_key = 0;  // of that row
  double mean_norm() const { return rows == 0 ? 0 : norms / static_cast<double>(rows); }
};

// In the order of the job's tables.
absl::StatusOr<std::vector<RowStats>> StatsOfTables(const Checkpoint& checkpoint);

std::string StatsTable(const Checkpoint& checkpoint, const std::vector<RowStats>& stats);
// Members as docs/TABLES.md has them.
std::string StatsJson(const Checkpoint& checkpoint, const std::vector<RowStats>& stats);

}  // namespace downpour
