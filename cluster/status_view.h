// What tools make of a chief's words (schema/status_report.h): whether a job is healthy or has ended, who waits for the
// same, and how far it is.
//
// Tests: tests/unit/cluster/status_view_test.cc.
#pragma once

#include <string>
#include <vector>

#include "schema/status_report.h"

namespace downpour {

// Waiting, preparing, running or succeeded; nobody missing while it runs, and something moves; training gets on; no
// failure within kLately.
inline constexpr double kLately = 60;  // seconds
bool IsHealthy(const StatusReport& status);
bool HasEnded(const StatusReport& status);
bool HasEnded(const SummaryReport& summary);
// Whether two reports are of different runs, by their `run`. One that is empty is not known, and may be the same.
bool IsAnotherRun(const std::string& run, const std::string& other);

// Those who wait for one thing, in the order of the first of each.
struct WaitGroup {
  std::vector<std::string> tasks;
  std::string on, why;
  MaybeNumber seconds;  // the longest
};
std::vector<WaitGroup> GroupWaits(const std::vector<WaitReport>& waits);

// Epochs done, with their fraction: 3.24 of 10.
MaybeNumber EpochsDone(const StatusReport& status);

}  // namespace downpour
