// A worker as a state machine: joins the chief, asks for leases, pulls, computes, pushes, reports. See
// schema/PROTOCOL.md for the conversations.
//
// Errors: it ends by an Exit alone, with a code of runtime/exit_code.h and one sentence: where its data or its device
//   fails, and where a ps refuses its gradients, with kExitFailed. What a ps gets wrong is counted and asked again.
// Tests: tests/scenario/worker_*.txt; those of its parts in tests/unit/worker.
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
  uint64_t run() const;                  // 0 before it is welcome anywhere
  Incarnation incarnation() const;       // kNone until welcomed; the last one while it joins again
  std::vector<LeaseId> holding() const;  // in the order in which they are worked on
  const TaskStats& stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace downpour
