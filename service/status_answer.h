// StatusAnswer: what /status answers of a job: the state that the service knows it in, and its chief's status, or the
// summary that the chief left.
//
//   StatusAnswer("RUNNING", *answer, /*most_tasks=*/40)   // {"state": "RUNNING", "status": {...}, "tasks": 1000, ...}
//
// Shapes: docs/SERVICE.md. With `most_tasks` only what a page shows at first: so many tasks, of each group that waits
//   for the same kWaitsOfAGroup, and kMostLines of what is pending or spare. `tasks` is how many there are, `moreWaits`
//   how many of each group are left out.
// Order: lost tasks first, then those that are not at work yet, and those that have left last; else the chief's.
// Cost: without `most_tasks` the chief's text is taken as it is.
// Tests: tests/unit/service/status_answer_test.cc.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "cluster/status_source.h"

namespace downpour {

inline constexpr size_t kWaitsOfAGroup = 4, kMostLines = 50;

std::string StatusAnswer(const std::string& state, const Answer& answer, std::optional<size_t> most_tasks);

}  // namespace downpour
