// ChiefParts: all parts of the chief, and which of them each part is given. Only chief/chief_role.cc knows it, which
// routes inputs to them. Each other part has what it uses in a struct Parts of its own, and nothing else.
//
// Order: parts are made in this order, so one that is used when another is made stands before it.
#pragma once

#include "chief/assignment.h"
#include "chief/best_checkpoint.h"
#include "chief/checkpoint_rounds.h"
#include "chief/checkpoint_schedule.h"
#include "chief/chief_view.h"
#include "chief/commands.h"
#include "chief/departures.h"
#include "chief/epilogue.h"
#include "chief/evaluation_schedule.h"
#include "chief/folder/checkpoint_store.h"
#include "chief/folder/journal.h"
#include "chief/folder/storage.h"
#include "chief/folder/task_logs.h"
#include "chief/history.h"
#include "chief/known/checkpoint_interval.h"
#include "chief/known/data_plan.h"
#include "chief/known/evaluation.h"
#include "chief/known/failure_log.h"
#include "chief/known/job_life.h"
#include "chief/known/learning_watch.h"
#include "chief/known/lease_ledger.h"
#include "chief/known/membership.h"
#include "chief/known/options.h"
#include "chief/known/progress.h"
#include "chief/known/slice_placement.h"
#include "chief/known/spares.h"
#include "chief/known/step_context.h"
#include "chief/known/watchers.h"
#include "chief/lifecycle.h"
#include "chief/preparation.h"
#include "chief/recovery.h"
#include "chief/shutdown.h"
#include "chief/slice_restore.h"
#include "chief/startup.h"
#include "chief/task_losses.h"
#include "chief/training.h"
#include "chief/work.h"
#include "job/slice_grid.h"

namespace downpour {

struct ChiefParts {
  explicit ChiefParts(ChiefOptions given);

  const ChiefOptions options;
  JobSpec job;  // that of the options, and what its epochs so far were trained on
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
  SlicePlacement placement;
  SliceRestore restore;
  Assignment assignment;
  LeaseLedger ledger;
  LeaseLedger resumed;  // by the checkpoint that the job continues from
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
