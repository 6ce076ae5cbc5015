// The chief as a state machine: members, placement, leases, evaluation, checkpoint rounds, status. See
// schema/PROTOCOL.md for the conversations.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/options.h"
#include "runtime/role.h"
#include "schema/job.h"

namespace downpour {

struct ChiefOptions {
  JobSpec job;
  std::string job_dir;  // for people; the role's own paths are relative to it
  std::string host;
  uint32_t pid = 0;
  bool resume = false;
  Timing timing;
};

}  // namespace downpour
