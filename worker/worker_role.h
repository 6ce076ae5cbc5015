// A worker as a state machine: joins the chief, asks for leases, pulls, computes, pushes, reports. See
// schema/PROTOCOL.md for the conversations.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/options.h"
#include "runtime/role.h"

namespace downpour {

struct WorkerOptions {
  std::string chief;  // host:port
  int32_t index = -1;
  std::string host;
  uint32_t pid = 0;
  std::string launcher;
  uint32_t attempt = 0;
  uint64_t nonce = 0;
  std::string device;  // for people
  int steps_in_flight = kDefaultStepsInFlight;
  int leases_held = kDefaultLeasesHeld;
  Timing timing;
};

}  // namespace downpour
