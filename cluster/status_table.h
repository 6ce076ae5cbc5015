// Status for people: who is healthy, who is pending and why, what failed lately; then the job, its tasks, the last
// checkpoint and what to type next.
//
// Order: always this one, with "none" in place of blanks, so that eyes and grep find things where they were. `waits`,
//   evaluation and errors appear only when there is something to say.
// Tests: tests/unit/cluster/status_table_test.cc.
#pragma once

#include <string>

#include "cluster/status_view.h"

namespace downpour {

// `is_elsewhere`: the chief's host is another one, with its folders.
std::string StatusTable(const StatusReport& status, bool color, bool is_elsewhere = false);
std::string SummaryTable(const SummaryReport& summary, bool color);

}  // namespace downpour
