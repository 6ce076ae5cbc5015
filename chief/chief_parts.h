// ChiefParts: all parts of the chief, and which of them each part is given. Only chief/chief_role.cc knows it, which
// routes inputs to them. Each other part has what it uses in a struct Parts of its own, and nothing else.
//
// Order: parts are made in this order, so one that is used when another is made stands before it.
#pragma once

#include "chief/assignment.h"
#include "chief/best_checkpoint.h"
#include "chief/checkpoint_interval.h"
#include "chief/checkpoint_rounds.h"
#include "chief/checkpoint_schedule.h"
#include "chief/checkpoint_store.h"
#include "chief/chief_role.h"
#include "chief/chief_view.h"
#include "chief/commands.h"
#include "chief/data_plan.h"
#include "chief/departures.h"
#include "chief/epilogue.h"
#include "chief/evaluation.h"
#include "chief/evaluation_schedule.h"
#include "chief/failure_log.h"
#include "chief/history.h"
#include "chief/job_life.h"
#include "chief/journal.h"
#include "chief/learning_watch.h"
#include "chief/lease_ledger.h"
#include "chief/lifecycle.h"
#include "chief/membership.h"
#include "chief/preparation.h"
#include "chief/progress.h"
#include "chief/recovery.h"
#include "chief/shutdown.h"
#include "chief/spares.h"
#include "chief/startup.h"
#include "chief/step_context.h"
#include "chief/storage.h"
#include "chief/task_logs.h"
#include "chief/task_losses.h"
#include "chief/training.h"
#include "chief/watchers.h"
#include "chief/work.h"
#include "job/slice_grid.h"

namespace downpour {

struct ChiefParts {
  explicit ChiefParts(ChiefOptions given);

  const ChiefOptions options;
  const JobSpec& job;
  const Timing& timing;
  const SliceGrid grid;

  // What the chief knows and keeps.
  StepContext context;
  JobLife life;
  ChiefCounts counts;
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
  LeaseLedger resumed;  // by the checkpoint that is gone on from
  Evaluation evaluation;
  CheckpointRounds rounds;
  CheckpointInterval interval;
  Progress progress;
  LearningWatch learning;
  Watchers watchers;
  Spares spares;

  // What moves the job along.
  BestCheckpoint best;
  Recovery recovery;
  Departures departures;
  Work work;
  const ChiefView view;
  Shutdown shutdown;
  Preparation preparation;
  EvaluationSchedule evaluations;
  CheckpointSchedule checkpoints;
  Training training;
  TaskLosses losses;
  History history;
  Epilogue epilogue;
  Lifecycle lifecycle;
  Commands commands;
};

}  // namespace downpour
