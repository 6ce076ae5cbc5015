// What becomes of the slices of a ps that is gone: they wait for a process in its place, and get their state from the
// newest checkpoint that has it.
//
//   recovery.Expect(2);                              // the chief was started again, and so many ps are to come back
//   recovery.Placed();                               // on those that came: who died with that chief is known now
//   recovery.Lost(task, "it was started again");
//   recovery.Tick();                                 // once it is known who was silent, and for how long
//   recovery.Advance();                              // after each input
//   if (recovery.here()) ...every ps that slices were given to is there...
//
// Order: a ps holds the only copy of its slices, so silence does not make it dead (protocol rule B11,
//   schema/PROTOCOL.md): one that beats again goes on where it was. Its slices are placed again once another process
//   joined under its name, from checkpoints as they are read then, after a manifest that was being written.
// Errors: failure(), with one sentence. UNAVAILABLE: a ps that is away for the job's timing.serverWait (and for
//   dead_after), or whose place is taken by one process after the other while no lease is committed. DATA_LOSS:
//   checkpoints that stay unusable for timing.serverWait while somebody waits for slices.
// Tests: tests/unit/chief/chief_recovery_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "chief/assignment.h"
#include "chief/checkpoint_rounds.h"
#include "chief/folder/checkpoint_store.h"
#include "chief/folder/journal.h"
#include "chief/known/data_plan.h"
#include "chief/known/failure_log.h"
#include "chief/known/lease_ledger.h"
#include "chief/known/membership.h"
#include "chief/known/slice_placement.h"
#include "chief/known/step_context.h"
#include "job/job.h"
#include "schema/checkpoint_format.h"

namespace downpour {

class Recovery {
 public:
  // Processes in one place without a lease committed in between: what kills them will kill the next one too.
  static constexpr int kMostLosses = 6;

  struct Parts {
    StepContext& context;
    const JobSpec& job;
    const Timing& timing;
    Journal& journal;
    FailureLog& failures;
    CheckpointStore& store;
    Membership& members;
    const DataPlan& data;
    const SlicePlacement& placement;
    Assignment& assignment;
    const LeaseLedger& ledger;
    CheckpointRounds& rounds;
  };
  explicit Recovery(const Parts& chief) : chief_(chief) {}

  void Expect(int64_t servers);
  void Placed();  // slices are, for the first time in this term
  void Lost(const Task& server, const std::string& why);
  void Tick();
  void Advance();

  // No slice's ps is gone.
  bool here() const;
  const absl::Status& failure() const { return failure_; }

 private:
  struct Losses {
    int count = 0;  // since `commits`
    uint64_t commits = 0;
    std::string first;  // what became of the first of them
  };
  bool ReplacementsWait() const;
  std::vector<Incarnation> Servers() const;       // whom slices were given to, ascending
  std::vector<Incarnation> AliveServers() const;  // every ps that is there, ascending
  void TakeOver(const absl::Status& checkpoints_loaded);
  absl::Status Validate(const std::vector<Manifest>& checkpoints) const;
  void LoadAgain(const std::string& why);
  void Count(const Task& successor);

  const Parts chief_;

  struct Gone {
    std::string why;
    bool in_order = false;  // it was told to stop, and a checkpoint had just got what it held
  };
  std::map<std::string, Gone> gone_;      // by task
  std::map<std::string, Losses> losses_;  // by task
  bool expecting_ = false;                // another chief led before: every ps is away until it has joined
  int64_t servers_before_ = 0;            // that the job had then; of others nobody was lost
  bool loading_ = false;                  // checkpoints are being read, on behalf of all that wait
  std::optional<Time> unusable_since_;    // checkpoints, for those who wait now
  Time next_load_{};                      // not before: after a read that found none usable
  absl::Status failure_;                  // once it is not OK the job fails by it
};

}  // namespace downpour
