// The parts of the chief and the few facts they share: what routing, work, lifecycle and status work on.
//
// Order: parts refer to those declared before them. What stands by itself is given these one by one; what moves the
//   whole job along is given all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chief/assignment.h"
#include "chief/best_checkpoint.h"
#include "chief/checkpoint_interval.h"
#include "chief/checkpoint_rounds.h"
#include "chief/checkpoint_store.h"
#include "chief/chief_role.h"
#include "chief/data_plan.h"
#include "chief/departures.h"
#include "chief/evaluation.h"
#include "chief/job_costs.h"
#include "chief/journal.h"
#include "chief/learning_watch.h"
#include "chief/lease_ledger.h"
#include "chief/membership.h"
#include "chief/progress.h"
#include "chief/recovery.h"
#include "chief/spares.h"
#include "chief/startup.h"
#include "chief/step_context.h"
#include "chief/storage.h"
#include "chief/task_logs.h"
#include "chief/watchers.h"
#include "job/slice_grid.h"

namespace downpour {

struct ChiefParts {
  explicit ChiefParts(ChiefOptions given);

  const ChiefOptions options;
  const JobSpec& job;
  const SliceGrid grid;

  StepContext context;
  Storage storage;
  Journal journal;
  FailureLog failures;
  CheckpointStore store;
  Startup startup;
  TaskLogs logs;
  Membership members;
  DataPlan data;
  Assignment assignment;
  LeaseLedger ledger;
  Evaluation evaluation;
  CheckpointRounds rounds;
  CheckpointInterval interval;
  BestCheckpoint best;
  Recovery recovery;
  Departures departures;
  Progress progress;
  LearningWatch learning;
  Watchers watchers;
  Spares spares;

  LeaseLedger resumed;  // by the checkpoint that is gone on from: what people are told until the slices have reported
  const LeaseLedger& known() const { return ledger.is_open() ? ledger : resumed; }

  std::vector<std::string> changes;  // of settings, by this start
  JobState state = JobState::kQueued;
  std::string error;         // why it failed or was cancelled
  int exit_code = 0;         // this chief's, once the job has ended
  bool diverged = false;     // and would do so again with the same learning rate
  std::string endpoint;      // of this chief
  uint32_t term = 0;         // 0 until it is durable
  uint64_t commands = 0;     // of people, heeded by this chief
  uint64_t rejected = 0;     // messages of strangers
  uint64_t refused = 0;      // handshakes without a key of this cluster
  std::string refused_from;  // where the last unknown key came from

  // Leases to commit, or a model to evaluate.
  bool HasWork() const { return state == JobState::kRunning && (!ledger.AllCommitted() || evaluation.active()); }
  bool runs() const { return state == JobState::kRunning || state == JobState::kCancelling; }
  uint64_t Epochs() const;             // with which the job ends: those of its file, unless it stops early
  std::string LastCheckpoint() const;  // in words; empty: there is none
  std::string CommandToStart() const;  // that people type to start the job again, but for --resume
  bool ended() const {
    return state == JobState::kSucceeded || state == JobState::kFailed || state == JobState::kCancelled;
  }
};

}  // namespace downpour
