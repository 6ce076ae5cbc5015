// The chief's dealings with workers: leases and evaluation parts out, what they did in.
//
// Order: a request that a later one has overtaken counts no more: what it says is held may have been handed on since.
//   Leases that open up go at once to workers that wait. Grants stop when the job stops running; answers are taken
//   until it has ended.
// Errors: INVALID_ARGUMENT for what no honest worker says; it changed nothing, unless it is a detail beside good
//   evidence.
// Tests: tests/unit/chief/chief_work_test.cc, and those of leases and evaluation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "chief/checkpoint_rounds.h"
#include "chief/folder/journal.h"
#include "chief/known/checkpoint_interval.h"
#include "chief/known/code_failures.h"
#include "chief/known/data_plan.h"
#include "chief/known/evaluation.h"
#include "chief/known/job_life.h"
#include "chief/known/learning_watch.h"
#include "chief/known/lease_ledger.h"
#include "chief/known/membership.h"
#include "chief/known/progress.h"
#include "chief/known/slice_placement.h"
#include "chief/known/step_context.h"
#include "chief/slice_restore.h"

namespace downpour {

class Work {
 public:
  struct Parts {
    StepContext& context;
    const JobSpec& job;
    const Timing& timing;
    const JobLife& life;
    Journal& journal;
    Membership& members;
    const DataPlan& data;
    const SlicePlacement& placement;
    const SliceRestore& restore;
    LeaseLedger& ledger;
    Evaluation& evaluation;
    const CheckpointRounds& rounds;
    CheckpointInterval& interval;
    Progress& progress;
    LearningWatch& learning;
  };
  explicit Work(const Parts& chief) : chief_(chief) {}

  // Leases to commit, or a model to evaluate.
  bool any() const;

  absl::Status Receive(Task& worker, const WorkRequest& request);
  absl::Status Receive(PeerId from, const LeaseDone& done);
  absl::Status Receive(PeerId from, const EvalDone& done);
  void Tick();

  // What is open, to those who wait for it.
  void Dispatch();
  // The worker is gone: the number of leases handed on.
  uint64_t Release(Incarnation worker);
  // It leaves because the job's own code raised. Heard before Release, which forgets what it held.
  void NoteCodeFailure(const Task& worker, const Leave& leave, const std::string& why);
  // Why the job cannot be trained to its end; OK: it may be.
  const absl::Status& failure() const { return code_failures_.failure(); }

  // Lost grants alone hardly ever exceed commits by so many.
  static constexpr size_t kSuspect = 16;

 private:
  void Send(Incarnation worker, LeaseId lease);
  void Offer(const Task& worker);
  void Commit(LeaseId lease);
  void WarnOfTrouble();
  void ConsiderStopping();
  void NoteGivenBack(size_t leases);

  const Parts chief_;
  CodeFailures code_failures_;
  Time next_repeat_{};
  size_t given_back_ = 0;               // grants that were lost or given back, less the leases committed meanwhile
  LearningWatch::Trouble warned_of_{};  // what the log says of training already
};

}  // namespace downpour
