// A worker as a state machine: joins the chief, asks for leases, pulls, computes, pushes, reports. See
// schema/PROTOCOL.md for the conversations.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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
  // Lines logged travel to the chief with heartbeats; false where the log file lies in the job folder already.
  bool forward_logs = true;
  Timing timing;
};

class WorkerRole final : public Role {
 public:
  explicit WorkerRole(WorkerOptions options);
  ~WorkerRole() override;
  void Step(Time now, Input input, Effects& effects) override;

  // For invariants and tests.
  Incarnation incarnation() const;       // kNone until welcomed, and while joining anew
  std::vector<LeaseId> holding() const;  // in the order in which they are worked on
  const TaskStats& stats() const;

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace downpour
