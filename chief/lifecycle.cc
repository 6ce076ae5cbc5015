#include "chief/lifecycle.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "chief/waits.h"
#include "runtime/exit_code.h"
#include "schema/text.h"

namespace downpour {

void Lifecycle::Begin(const Started& started) {
  chief_.preparation.Begin(started, [this](const Startup::Outcome& outcome) { chief_.shutdown.Decline(outcome); });
}

// ---- After each input -----------------------------------------------------------------------------------------------

void Lifecycle::Tick() {
  chief_.training.Tick();
  const bool needs_servers = chief_.life.state != JobState::kCancelling && !(chief_.epilogue.begun() && IsTrained());
  if (needs_servers) chief_.recovery.Tick();
  FailIfTooManySkips();
  CancelIfOutOfTime();
}

void Lifecycle::Advance() {
  if (chief_.shutdown.exited()) return;
  if (!chief_.life.ready()) {
    if (chief_.life.ended()) chief_.shutdown.Advance();
    return;
  }
  chief_.checkpoints.Observe(chief_.training.ledger_current());
  chief_.training.WriteJournal();
  if (chief_.life.ended()) return chief_.shutdown.Advance();
  if (!chief_.training.failure().ok()) return chief_.shutdown.Fail(chief_.training.failure());
  if (chief_.life.state != JobState::kCancelling) {  // then its last checkpoint is all that counts
    if (!chief_.work.failure().ok()) return chief_.shutdown.Fail(chief_.work.failure());
    chief_.recovery.Advance();
  }
  if (!chief_.recovery.failure().ok()) return chief_.shutdown.Fail(chief_.recovery.failure());
  if (const auto skipped = chief_.checkpoints.too_many_skipped()) return FailOfSkips(*skipped);
  // core 1: the slices' reports come before the ledger grants or commits anything more.
  chief_.training.FollowReports();
  if (!chief_.life.prepared) Prepare();
  if (chief_.life.state == JobState::kRunning) Train();
  if (chief_.life.state == JobState::kCancelling) Cancel();
}

void Lifecycle::Prepare() {
  const absl::StatusOr<bool> prepared = chief_.preparation.Advance();
  if (!prepared.ok()) return chief_.shutdown.Fail(prepared.status());
  if (!*prepared) return;
  chief_.life.prepared = true;
  if (chief_.life.state != JobState::kCancelling) chief_.life.state = JobState::kRunning;
  chief_.training.Begin();
}

bool Lifecycle::IsTrained() const { return chief_.training.IsEvaluated() && chief_.checkpoints.AllDurable(); }

void Lifecycle::Train() {
  if (!chief_.epilogue.failure().ok()) return chief_.shutdown.Fail(chief_.epilogue.failure());
  if (chief_.epilogue.begun()) {
    if (IsTrained() && !chief_.training.Diverged()) return Conclude();
    chief_.epilogue.Suspend();  // leases were opened again
  }
  if (!chief_.training.ledger_current()) return;
  chief_.training.Advance();
  chief_.checkpoints.Advance();
  if (chief_.training.IsEvaluated() && chief_.training.Diverged()) {
    chief_.life.diverged = true;
    return chief_.shutdown.Fail(absl::AbortedError(WhyDiverged()));
  }
  if (IsTrained()) Conclude();
}

// What the job has learned is durable: a ps that goes away meanwhile takes nothing of it along. Once another process is
// in its place, the slices that it gets may lack leases, since a record of that checkpoint may have been damaged.
void Lifecycle::Conclude() {
  chief_.epilogue.Advance(chief_.life.term);
  if (!chief_.epilogue.failure().ok()) return chief_.shutdown.Fail(chief_.epilogue.failure());
  const bool restores = chief_.recovery.here() && !chief_.training.ledger_current();
  // A12: workers are let go only now, since a lost slice, or the rest of the program, would need them until then.
  if (chief_.epilogue.IsOver() && !restores) chief_.shutdown.Succeed();
}

std::string Lifecycle::WhyDiverged() const {
  if (chief_.job.model.loss == Loss::kOwn && chief_.training.PushesSkipped() == 0) {
    return "the loss of the last evaluation is not finite, though no ps tells of gradients that were not: the model"
           " diverged, or the code returns a loss of eval that is none; look at that, and else try a lower"
           " training.optimizer.learningRate";
  }
  return "the loss of the last evaluation is not finite: the model diverged; try a lower"
         " training.optimizer.learningRate, in another job folder if the last checkpoint already holds every lease";
}

// ---- Failure and cancellation ---------------------------------------------------------------------------------------

// Heartbeats tell soon but late. What the job's success rests on is the count in the records of its last round.
void Lifecycle::FailIfTooManySkips() {
  const uint64_t skipped = chief_.training.PushesSkipped();
  if (skipped > MostSkipped()) FailOfSkips(skipped);
}

void Lifecycle::FailOfSkips(uint64_t skipped) {
  chief_.life.diverged = true;
  chief_.shutdown.Fail(absl::AbortedError(
      absl::StrCat(skipped, " pushes were skipped, more than training.maxSkippedPushes (", MostSkipped(),
                   ") allows: the logs of the ps say why; if they were not finite, the model diverged: try a lower",
                   " training.optimizer.learningRate")));
}

void Lifecycle::Stop(const StopRequested& stop) {
  const std::string why = "ended by " + Reason(stop);
  const int exit_code = kExitSignalled + stop.signal;
  if (!chief_.life.ready()) return chief_.shutdown.Interrupt(why, exit_code);
  BeginCancel(why, exit_code);
}

void Lifecycle::CancelIfOutOfTime() {
  const Duration limit = chief_.job.scheduling.max_running_time;
  if (limit == Duration::zero() || chief_.context.Ran() < limit) return;
  const std::string why = WhyAWorkerWaits(chief_.members);
  BeginCancel(absl::StrFormat("it has run for the %.10g s of scheduling.maxRunningTime, counted from each start%s%s",
                              Seconds(limit), why.empty() ? "" : "; ", why),
              kExitOutOfTime);
}

void Lifecycle::BeginCancel(const std::string& why, int exit_code) {
  if (chief_.life.ended() || chief_.life.state == JobState::kCancelling) return;
  chief_.context.out.Warn(absl::StrCat("the job is cancelled after one last checkpoint: ", why));
  const bool may_hold = chief_.life.prepared || chief_.life.placed_before;  // what no checkpoint has
  cancel_by_ = may_hold ? chief_.context.now + kLastRound : chief_.context.now;
  chief_.checkpoints.MakeWayForTheLast();
  cancel_why_ = why;
  cancel_exit_code_ = exit_code;
  chief_.life.state = JobState::kCancelling;
}

// Where the last checkpoint could not be written in time.
std::string Lifecycle::WhatIsDropped() const {
  const uint64_t dropped = chief_.checkpoints.LeasesInNone();
  if (dropped == 0) return "";
  return absl::StrCat("; no last checkpoint was written: ", Counted(dropped, "committed lease"),
                      " will be computed again");
}

void Lifecycle::Cancel() {
  // A round that cannot become whole in time is not waited for. Servers of a chief that died join within that time.
  const bool may_wait = chief_.context.now < cancel_by_;
  if (may_wait && !chief_.life.prepared) return;
  if (may_wait && chief_.training.ledger_current() && chief_.checkpoints.AwaitTheLast()) return;
  chief_.shutdown.Cancel(cancel_why_ + WhatIsDropped(), cancel_exit_code_);
}

}  // namespace downpour
