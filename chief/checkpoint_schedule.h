// CheckpointSchedule: when checkpoint rounds begin: as often as the job file says, for a ps that is to leave, and for
// the job's end. Rounds themselves are in chief/checkpoint_rounds.h, the time between them in checkpoint_interval.h.
//
//   schedule.Observe(ledger_current);   // after each input: what became of a round
//   schedule.Advance();                 // then, while the job runs: the round that is due begins
//   if (schedule.AllDurable()) ...the job may succeed...
//
// Order: a round needs the ps of every slice. Rounds for a ps that is to leave, and the last one, are urgent.
// Source: protocol rules A5, A12 (schema/PROTOCOL.md).
// Tests: tests/unit/chief/chief_checkpoint_test.cc, chief_departures_test.cc, chief_end_test.cc.
#pragma once

#include <cstdint>
#include <optional>

#include "chief/best_checkpoint.h"
#include "chief/checkpoint_rounds.h"
#include "chief/departures.h"
#include "chief/folder/journal.h"
#include "chief/known/checkpoint_interval.h"
#include "chief/known/data_plan.h"
#include "chief/known/job_life.h"
#include "chief/known/lease_ledger.h"
#include "chief/known/step_context.h"
#include "chief/recovery.h"
#include "job/job.h"
#include "runtime/options.h"

namespace downpour {

class CheckpointSchedule {
 public:
  struct Parts {
    StepContext& context;
    const JobSpec& job;
    const Timing& timing;
    const JobLife& life;
    Journal& journal;
    const DataPlan& data;
    const LeaseLedger& ledger;
    CheckpointRounds& rounds;
    CheckpointInterval& interval;
    BestCheckpoint& best;
    Departures& departures;
    const Recovery& recovery;
  };
  explicit CheckpointSchedule(const Parts& chief) : chief_(chief) {}

  void Begin();
  // `ledger_current`: as Training has it.
  void Observe(bool ledger_current);
  void Advance();
  // The job is to end after one more round: drops the one under way, which has little time.
  void MakeWayForTheLast();
  // Begins the last round of a job that is cancelled. Whether it is still waited for.
  bool AwaitTheLast();
  // Leases that were committed are open again: rounds that began before are not relied on at the end.
  void Reopen() { rounds_before_reopening_ = rounds_begun_; }

  // A round of this term is durable that holds every lease.
  bool AllDurable() const;
  uint64_t LeasesInNone() const;  // committed, and in no checkpoint
  // As CheckpointRounds has it.
  std::optional<uint64_t> too_many_skipped() const { return chief_.rounds.too_many_skipped(); }

 private:
  Duration SinceLast() const;
  void ObserveRounds(bool ledger_current);
  void BeginIfDue();
  void BeginForDepartures();
  void StartRound();

  const Parts chief_;
  uint32_t rounds_begun_ = 0;             // in this term: the n of (term, n) (A5)
  uint32_t rounds_before_reopening_ = 0;  // what they hold is not relied on at the end
  Time next_last_round_{};                // when the round that ends the job may be tried again
  bool last_round_begun_ = false;         // the one that ends the job, or that a cancelled one waits for
};

}  // namespace downpour
