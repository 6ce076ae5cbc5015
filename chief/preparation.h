// Preparation: from the first look into the job folder until every slice is in place and some worker has its data.
//
//   preparation.Begin(started, decline);   // decline: there is nothing to lead
//   const absl::StatusOr<bool> prepared = preparation.Advance();   // after each input, once this chief leads
//   if (prepared.ok() && *prepared) ...train...
//
// Order: the journal has the data before slices are placed for them (conversation 11). Slices are placed once, when all
//   ps are there.
// Errors: Advance: why no worker can prepare, once all that may have the data were refused: FAILED_PRECONDITION where
//   the data differ, else the code of a worker's refusal.
// Tests: tests/unit/chief/chief_role_test.cc, chief_restart_test.cc, chief_resume_test.cc.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "chief/assignment.h"
#include "chief/checkpoint_rounds.h"
#include "chief/folder/checkpoint_store.h"
#include "chief/folder/journal.h"
#include "chief/known/data_plan.h"
#include "chief/known/failure_log.h"
#include "chief/known/job_life.h"
#include "chief/known/lease_ledger.h"
#include "chief/known/membership.h"
#include "chief/known/slice_placement.h"
#include "chief/known/step_context.h"
#include "chief/recovery.h"
#include "chief/slice_restore.h"
#include "chief/startup.h"

namespace downpour {

class Preparation {
 public:
  struct Parts {
    StepContext& context;
    JobSpec& job;
    const ChiefOptions& options;
    JobLife& life;
    Startup& startup;
    Journal& journal;
    FailureLog& failures;
    const CheckpointStore& store;
    Membership& members;
    DataPlan& data;
    const SlicePlacement& placement;
    const SliceRestore& restore;
    Assignment& assignment;
    CheckpointRounds& rounds;
    LeaseLedger& resumed;
    Recovery& recovery;
  };
  explicit Preparation(const Parts& chief) : chief_(chief) {}

  void Begin(const Started& started, std::function<void(const Startup::Outcome&)> decline);
  // Moves the job between QUEUED and PREPARING. True: it can run.
  absl::StatusOr<bool> Advance();

 private:
  void Lead(const Startup::Outcome& outcome);
  void Resume();
  absl::Status CheckSomebodyMayHaveData() const;

  const Parts chief_;
  std::vector<Manifest> sources_;    // what is resumed; empty once placed
  std::optional<Manifest> initial_;  // what the job begins with, if the user gave it that; likewise
  std::string lost_;                 // why there is no checkpoint, though there was
};

}  // namespace downpour
