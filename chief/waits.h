// Who waits for what: which tasks are not at work yet, who waits for whom, and why a job stands still.
//
// Errors: none. All of it is for people, and for those who derive from it whether a cluster is healthy.
// Tests: tests/unit/chief/status_test.cc, stall_test.cc.
#pragma once

#include <string>
#include <vector>

#include "chief/chief_view.h"
#include "schema/status_report.h"

namespace downpour {

// Tasks that do not run yet, or not any more; none of a job that is over.
std::vector<PendingReport> PendingOf(const ChiefView& chief);

std::vector<WaitReport> WaitsOf(const ChiefView& chief);

// Why nothing has moved for Progress::kStandsStillAfter though there is work to do, in one sentence; empty: it moves.
std::string WhyItStandsStill(const ChiefView& chief);

// Of a worker that waits: what for, and what it has warned of meanwhile, as at which line the user's code is; empty:
// none has warned.
std::string WhyAWorkerWaits(const Membership& members);

// A worker that would work, and for which no lease is left: others hold all that are not committed.
bool IsSpare(const ChiefView& chief, const Task& task);

}  // namespace downpour
