// A worker as a state machine: joins the chief, asks for leases, pulls, computes, pushes, reports. See
// schema/PROTOCOL.md for the conversations.
#pragma once

#include <memory>
#include <vector>

#include "runtime/member_session.h"
#include "runtime/options.h"
#include "runtime/role.h"

namespace downpour {

struct WorkerOptions {
  MemberOptions member;
  int steps_in_flight = kDefaultStepsInFlight;
  int leases_held = kDefaultLeasesHeld;
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
