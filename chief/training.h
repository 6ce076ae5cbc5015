// Training: leases as slices report them, and workers that are told where slices are, from the moment that the job
// runs. Granting and committing leases is chief/work.h.
//
//   training.Begin();            // every slice has reported, and some worker has its data
//   training.FollowReports();    // after each input
//   training.Advance();          // then, while the job runs
//   if (training.IsEvaluated()) ...
//
// Order: the ledger is a cache of what slices say, and begins with what they report. While a slice has not reported
//   where it is now, ledger_current() is false and no worker gets a placement.
// Source: protocol rules core 1, A3, conversation 5 (schema/PROTOCOL.md).
// Tests: tests/unit/chief/chief_role_test.cc, chief_recovery_test.cc, chief_work_test.cc.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "chief/assignment.h"
#include "chief/best_checkpoint.h"
#include "chief/checkpoint_rounds.h"
#include "chief/checkpoint_schedule.h"
#include "chief/evaluation_schedule.h"
#include "chief/folder/journal.h"
#include "chief/known/data_plan.h"
#include "chief/known/failure_log.h"
#include "chief/known/job_life.h"
#include "chief/known/learning_watch.h"
#include "chief/known/lease_ledger.h"
#include "chief/known/membership.h"
#include "chief/known/progress.h"
#include "chief/known/slice_placement.h"
#include "chief/known/step_context.h"
#include "chief/slice_restore.h"
#include "chief/work.h"
#include "job/job.h"

namespace downpour {

class Training {
 public:
  struct Parts {
    StepContext& context;
    const JobSpec& job;
    const JobLife& life;
    Journal& journal;
    FailureLog& failures;
    Membership& members;
    const DataPlan& data;
    const SlicePlacement& placement;
    SliceRestore& restore;
    const Assignment& assignment;
    LeaseLedger& ledger;
    CheckpointRounds& rounds;
    BestCheckpoint& best;
    Progress& progress;
    LearningWatch& learning;
    Work& work;
    EvaluationSchedule& evaluations;
    CheckpointSchedule& checkpoints;
  };
  explicit Training(const Parts& chief) : chief_(chief) {}

  void Begin();
  void Tick();
  // What is committed goes into the journal, which then writes what changed.
  void WriteJournal();
  void FollowReports();
  void Advance() { chief_.evaluations.Advance(); }
  // To a worker whose data is good and that has not seen the newest one.
  void SendPlacement(const Task& worker);
  // To a reader, which is no member: what it has not seen.
  void AnswerReader(PeerId reader, const PlacementRequest& asked);

  // The ledger says what the slices last reported.
  bool ledger_current() const { return ledger_current_; }
  // Why some slice has no state, and never will; OK: each has, or may get it.
  const absl::Status& failure() const { return chief_.restore.failure(); }
  // The final values are evaluated, and likewise their loss is not finite.
  bool IsEvaluated() const { return chief_.evaluations.IsOver(); }
  bool Diverged() const { return chief_.evaluations.Diverged(); }
  // As heartbeats tell: soon, but late.
  uint64_t PushesSkipped() const { return chief_.members.Totals(TaskRole::kPs).pushes_skipped; }

 private:
  void UpdateTaskStates();
  uint64_t Reopen(const IntervalSet& finished);  // all others; returns their batches
  void Recompute(uint64_t batches);

  const Parts chief_;
  bool ledger_current_ = false;
};

}  // namespace downpour
