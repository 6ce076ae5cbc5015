// Ps that were told to stop, and stay until a checkpoint holds what they had when they said so.
//
//   departures.Tick();   // each heartbeat is answered by what it says of that task: Task::may_leave
//   if (departures.round_due()) { departures.RoundBegins(); rounds.Start(...); }
//   departures.Clear();  // and no Tick any more: the job's end lets all go
//
// Order: a ps may leave once a round that began after its word is durable; at once where a round would keep nothing of
//   it. Those that are told at about the same time share one round, and as each round needs all of them, none goes
//   before it that still has time.
// Cost: Tick is linear in tasks.
// Errors: none. A round that fails is tried again; who waits too long leaves by itself (runtime/options.h), and is
//   lost. One that stays though it may leave counts as any other again after dead_after.
// Tests: tests/unit/chief/chief_departures_test.cc, chief_departures_loss_test.cc.
#pragma once

#include <string>

#include "chief/checkpoint_rounds.h"
#include "chief/known/lease_ledger.h"
#include "chief/known/membership.h"
#include "chief/known/slice_placement.h"
#include "chief/known/step_context.h"
#include "chief/slice_restore.h"
#include "runtime/world_time.h"

namespace downpour {

class Departures {
 public:
  struct Parts {
    StepContext& context;
    const Timing& timing;
    Membership& members;
    const SlicePlacement& placement;
    const SliceRestore& restore;
    const LeaseLedger& ledger;
    const CheckpointRounds& rounds;
  };
  explicit Departures(const Parts& chief) : chief_(chief) {}

  void Tick();
  void Clear();

  bool any() const { return any_; }  // leaving, or about to: only rounds for them are begun, and these are urgent
  // Why none can be begun, though somebody waits for one; empty: one can.
  const std::string& blocked_by() const { return blocked_by_; }
  bool round_due() const;
  void RoundBegins();

 private:
  void NoteLeaving(Task& server, bool others_wait);
  void LetGo(Task& server);
  bool HasNothing(const Task& server) const;
  bool HasTime(const Task& server) const;
  std::string BlockedBy() const;

  const Parts chief_;
  bool any_ = false;
  bool waiting_ = false;    // for a round to be durable
  bool under_way_ = false;  // a round that some of them wait for
  Time next_round_{};
  std::string blocked_by_;
};

}  // namespace downpour
