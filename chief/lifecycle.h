// The life of a job, from the first look into its folder to its end.
//
//   QUEUED -> PREPARING -> RUNNING -> SUCCEEDED
//                             |-----> CANCELLING -> CANCELLED
//   any but the last three ---------> FAILED, CANCELLED
//
// Order: Advance after each input moves the job on as far as it can go. It has SUCCEEDED when a checkpoint of this term
//   is durable that holds every lease, and the last evaluation is in: only then may workers leave (protocol rule A12,
//   schema/PROTOCOL.md). What follows is chief/shutdown.h.
// Errors: none; what goes wrong is the job's end, with one sentence.
// Tests: tests/unit/chief/chief_role_test.cc, chief_crash_test.cc, chief_restart_test.cc, chief_resume_test.cc,
//   chief_departures_test.cc, chief_departures_loss_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "chief/chief_parts.h"
#include "chief/shutdown.h"
#include "chief/work.h"

namespace downpour {

class Lifecycle {
 public:
  // From the order to stop to the job's end, for one urgent round: what a spot machine's notice of 30 s leaves, less
  // the goodbyes.
  static constexpr Duration kLastRound = 20s;

  Lifecycle(ChiefParts& chief, Work& work, Shutdown& shutdown) : chief_(chief), work_(work), shutdown_(shutdown) {}

  void Begin(const Started& started);
  bool ready() const { return chief_.term != 0; }

  void Tick();
  void Advance();

  // A process is no longer there: it fell silent, or was replaced, or is a ps that left.
  // `how` completes "ps-0 is gone: ".
  void Lost(const Task& task, const std::string& how);
  void RefuseForGood(Task& task, RefusalCode code, const std::string& why);
  // To a worker whose data is good and that has not seen the newest one.
  void SendPlacement(const Task& worker);
  // FAILED_PRECONDITION: the job has to be another; DATA_LOSS: no checkpoint of it can be used.
  void Fail(const absl::Status& why);
  void Stop(const StopRequested& stop);

 private:
  void Ready(const Startup::Outcome& outcome);
  void Prepare();
  void FailIfNobodyHasData();
  void Run();
  uint64_t MostSkipped() const { return static_cast<uint64_t>(chief_.job.training.max_skipped_pushes); }
  void FailIfTooManySkips();
  void FailOfSkips(uint64_t skipped);
  bool Diverged() const;
  void Train();
  void Evaluate();
  void ObserveCheckpoints();
  void Checkpoint();
  void CheckpointForDepartures();
  void StartRound();
  void CancelIfOutOfTime();
  void BeginCancel(const std::string& why, int exit_code);
  void Cancel();
  void FollowReports();
  void Reopen(const IntervalSet& finished);
  void Recompute(uint64_t batches);
  void UpdateTaskStates();
  bool AllDurable() const;
  std::string HowToGoOn() const;

  ChiefParts& chief_;
  Work& work_;
  Shutdown& shutdown_;

  std::vector<Manifest> sources_;         // what is resumed; empty once placed
  std::optional<Manifest> initial_;       // what the job begins with, if the user gave it that; likewise
  std::string lost_;                      // why there is no checkpoint, though there was
  uint32_t rounds_begun_ = 0;             // in this term: the n of (term, n) (A5)
  uint32_t rounds_before_reopening_ = 0;  // what they hold is not relied on at the end
  Time next_last_round_{};                // when the round that ends the job may be tried again
  uint64_t evaluated_epochs_ = 0;         // committed when the last evaluation began, or when this chief did
  bool final_evaluation_ = false;         // the one of the final values has begun, and nothing was opened again since

  Time running_since_{};           // for scheduling.maxRunningTime: of this chief alone
  bool last_round_begun_ = false;  // the one that ends the job, or that a cancelled one waits for
  bool ledger_current_ = false;    // it says what the slices last reported
  Time cancel_by_{};               // of CANCELLING, as the next two: the end comes then in any case
  std::string cancel_why_;
  int cancel_exit_code_ = 0;
};

}  // namespace downpour
