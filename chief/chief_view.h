// ChiefView: what status, summary and what is made of them read of the chief. None of it can be changed through here.
//
// Order: valid between Steps and within them; each answer is of the moment in which it is given.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "chief/checkpoint_rounds.h"
#include "chief/departures.h"
#include "chief/epilogue.h"
#include "chief/folder/journal.h"
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
#include "chief/slice_restore.h"
#include "chief/work.h"

namespace downpour {

// Of others than members.
struct ChiefCounts {
  uint64_t commands = 0;     // of people, obeyed by this chief
  uint64_t rejected = 0;     // messages of strangers
  uint64_t refused = 0;      // handshakes without a key of this cluster
  std::string refused_from;  // where the last unknown key came from
};

struct ChiefView {
  const ChiefOptions& options;
  const JobSpec& job;
  const StepContext& context;
  const JobLife& life;
  const ChiefCounts& counts;
  const Journal& journal;
  const FailureLog& failures;
  const Membership& members;
  const DataPlan& data;
  const SlicePlacement& placement;
  const SliceRestore& restore;
  const LeaseLedger& ledger;
  const LeaseLedger& resumed;
  const Evaluation& evaluation;
  const CheckpointRounds& rounds;
  const CheckpointInterval& interval;
  const Departures& departures;
  const Progress& progress;
  const LearningWatch& learning;
  const Spares& spares;
  const Work& work;
  const Epilogue& epilogue;

  // What people are told of leases: of the checkpoint that the job continues from, until the slices have reported.
  const LeaseLedger& known() const { return ledger.is_open() ? ledger : resumed; }
  // With which the job ends: those of its file, unless it stops early.
  uint64_t Epochs() const {
    const auto all = static_cast<uint64_t>(job.training.epochs);
    const uint64_t fewer = journal.record().early.epochs;
    return fewer == 0 ? all : std::min(fewer, all);
  }
};

}  // namespace downpour
