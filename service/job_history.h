// What a job's metrics.jsonl holds, thinned for a page's curves.
//
//   absl::StatusOr<nlohmann::json> history = ReadHistory(job_dir + "/metrics.jsonl", /*after=*/0);
//   ... ReadHistory(path, (*history)["mark"]) ...        // only what came since
//
// Shapes: {"mark": BYTES, "restarted": bool, "train": COLUMNS, "epoch": COLUMNS, "eval": COLUMNS,
//   "tasks": {NAME: COLUMNS}}. COLUMNS is {"elapsed": [..], "loss": [..], ...}: lists of one length, null where a line
//   does not have the number. The members of eval's `metrics` are columns like the others.
//   `run`: of the last chief that began behind the mark. What stands in the file before another run's is left out.
//   `restarted`: the file is another one than the mark is of, and this is all of it.
// Order: as the chief wrote it. A line that is not whole yet, or that nobody can read, is left out.
// Cost: reads what is behind the mark, at most kMostHistoryBytes of it. At most kMostHistoryPoints of each kind, and
//   kMostTaskPoints of all tasks together, are kept at any time: evenly spread, and the last.
// Tests: tests/unit/service/job_history_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace downpour {

inline constexpr int64_t kMostHistoryBytes = int64_t{32} << 20;
inline constexpr size_t kMostHistoryPoints = 1000;
inline constexpr size_t kMostTaskPoints = 20'000;

nlohmann::json ReadHistory(const std::string& path, int64_t after);

}  // namespace downpour
