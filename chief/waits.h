// Who waits for what: which tasks are not at work yet, who waits for whom, and why a job stands still.
//
// Errors: none. All of it is for people, and for those who derive from it whether a cluster is healthy.
// Tests: tests/unit/chief/status_test.cc, stall_test.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chief/chief_view.h"

namespace downpour {

struct Pending {
  std::string task;
  std::string why;
};
// Tasks that do not run yet, or not any more; none of a job that is over.
std::vector<Pending> PendingOf(const ChiefView& chief);

struct Wait {
  std::string task;
  std::string on;
  std::string why;  // empty: nothing more is known
  std::optional<double> seconds;
};
std::vector<Wait> WaitsOf(const ChiefView& chief);

// Why nothing has moved for Progress::kStandsStillAfter though there is work to do, in one sentence; empty: it moves.
std::string WhyItStandsStill(const ChiefView& chief);

// A worker that would work, and for which no lease is left: others hold all that are not committed.
bool IsSpare(const ChiefView& chief, const Task& task);

}  // namespace downpour
