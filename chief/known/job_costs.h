// JobCosts: what the job has cost so far, whichever chief led it: counts and the newest failures, for people.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "schema/status_report.h"

namespace downpour {

struct Failure {
  int64_t unix_ms = 0;  // for people, by the calendar
  int64_t at_ms = 0;    // by the job's own clock (job_clock.h)
  std::string task;
  std::string what;
  bool operator==(const Failure&) const = default;
};

struct JobCosts {
  uint64_t workers_lost = 0;
  uint64_t servers_lost = 0;                     // whose place another process took
  uint64_t leases_handed_on = 0;                 // by workers that died or left
  uint64_t batches_recomputed = 0;               // of leases that were opened again
  std::deque<Failure> failures;                  // oldest first
  std::map<std::string, uint64_t> skips_listed;  // by ps: those that its process counts and a failure told
  bool operator==(const JobCosts&) const = default;
};

// Its counts, where the status has them, and their keys in the journal.
struct JobCostCount {
  uint64_t JobCosts::*count;
  MaybeCount RecoveryReport::*in_status;
  const char* in_journal;
};
inline constexpr JobCostCount kJobCostCounts[] = {
    {&JobCosts::workers_lost, &RecoveryReport::workers_lost, "workersLost"},
    {&JobCosts::servers_lost, &RecoveryReport::ps_lost, "psLost"},
    {&JobCosts::leases_handed_on, &RecoveryReport::leases_handed_on, "leasesHandedOn"},
    {&JobCosts::batches_recomputed, &RecoveryReport::batches_recomputed, "batchesRecomputed"},
};

}  // namespace downpour
