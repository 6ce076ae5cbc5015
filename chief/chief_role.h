// The chief as a state machine: members, placement, leases, evaluation, checkpoint rounds, status. See
// schema/PROTOCOL.md for the conversations.
//
//   ChiefRole chief({.job = job, .job_dir = "/jobs/mnist", .host = "h0", .pid = 4711});
//   chief.Step(now, Started{unix_ms, "h0:40123"}, effects);
//
// Cost: a message costs what it carries; a Tick is linear in tasks and in slices on their way, never in leases.
// Errors: whatever members, disk or signals do becomes a message, a line of status or an Exit (0 done, 1 failed, 78 the
//   checkpoints here belong to another plan, 130 or 143 ended by a signal). A job that does not fit its own model is a
//   bug of the caller: CHECKed by the constructor.
// Tests: tests/unit/chief.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "chief/known/job_state.h"
#include "chief/known/options.h"
#include "runtime/role.h"

namespace downpour {

class ChiefRole final : public Role {
 public:
  explicit ChiefRole(ChiefOptions options);
  ~ChiefRole() override;

  void Step(Time now, Input input, Effects& effects) override;

  // For invariants, tests and tools; valid between steps.
  JobState state() const;
  uint32_t term() const;  // 0 until it is durable
  uint64_t run() const;   // 0 until it is known
  // Leases that every slice's current epoch holds finished; while all_reported().
  const IntervalSet& committed() const;
  uint64_t goal() const;      // as many leases, the first ones, end the job; UINT64_MAX before it runs
  bool all_reported() const;  // every slice has reported what it holds in its epoch
  std::map<LeaseId, Incarnation> holders() const;       // granted leases and who holds them
  std::vector<SliceEpoch> epochs() const;               // by slice; {0, 0} before it is placed
  int64_t worker_count() const;                         // how many workers the job wants
  uint64_t commands() const;                            // of people, obeyed in this term
  std::vector<Incarnation> lost() const;                // members that have been silent for too long
  std::vector<Incarnation> alive(TaskRole role) const;  // all others that have not left
  std::string StatusJson(Time now) const;               // docs/STATUS.md

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace downpour
