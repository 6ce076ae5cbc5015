// The life of a job, from the first look into its folder to its end.
//
//   QUEUED -> PREPARING -> RUNNING -> SUCCEEDED
//                             |-----> CANCELLING -> CANCELLED
//   any but the last three ---------> FAILED, CANCELLED
//
// Order: Advance after each input moves the job on as far as it can go. It has SUCCEEDED when a checkpoint of this term
//   is durable that holds every lease, the last evaluation is in, and the rest of the user's program has ended: only
//   then may workers leave (protocol rule A12, schema/PROTOCOL.md). What follows is chief/shutdown.h.
// Errors: none; what goes wrong is the job's end, with one sentence.
// Tests: tests/unit/chief/chief_role_test.cc, chief_crash_test.cc, chief_restart_test.cc, chief_resume_test.cc,
//   chief_departures_test.cc, chief_departures_loss_test.cc.
#pragma once

#include <cstdint>
#include <string>

#include "chief/checkpoint_schedule.h"
#include "chief/epilogue.h"
#include "chief/known/job_life.h"
#include "chief/known/membership.h"
#include "chief/known/step_context.h"
#include "chief/preparation.h"
#include "chief/recovery.h"
#include "chief/shutdown.h"
#include "chief/training.h"
#include "chief/work.h"
#include "job/job.h"

namespace downpour {

class Lifecycle {
 public:
  // From the order to stop to the job's end, for one urgent round: what a spot machine's notice of 30 s leaves, less
  // the goodbyes.
  static constexpr Duration kLastRound = 20s;

  struct Parts {
    StepContext& context;
    const JobSpec& job;
    JobLife& life;
    const Membership& members;
    Preparation& preparation;
    Training& training;
    CheckpointSchedule& checkpoints;
    Epilogue& epilogue;
    Recovery& recovery;
    const Work& work;
    Shutdown& shutdown;
  };
  explicit Lifecycle(const Parts& chief) : chief_(chief) {}

  void Begin(const Started& started);
  void Tick();
  void Advance();
  void Stop(const StopRequested& stop);

 private:
  void Prepare();
  bool IsTrained() const;  // evaluated, and in a durable checkpoint; no more once leases are opened again
  void Train();
  void Conclude();
  std::string WhyDiverged() const;
  uint64_t MostSkipped() const { return static_cast<uint64_t>(chief_.job.training.max_skipped_pushes); }
  void FailIfTooManySkips();
  void FailOfSkips(uint64_t skipped);
  void CancelIfOutOfTime();
  void BeginCancel(const std::string& why, int exit_code);
  void Cancel();
  std::string WhatIsDropped() const;

  const Parts chief_;
  Time cancel_by_{};  // of CANCELLING, as the next two: the end comes then in any case
  std::string cancel_why_;
  int cancel_exit_code_ = 0;
};

}  // namespace downpour
