#include "chief/lifecycle.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "job/job_file.h"
#include "runtime/exit_code.h"
#include "schema/text.h"

namespace downpour {

// ---- Beginning ------------------------------------------------------------------------------------------------------

void Lifecycle::Begin(const Started& started) {
  chief_.context.started = chief_.context.now;
  chief_.context.started_unix_ms = started.unix_ms;
  chief_.endpoint = started.endpoint;
  chief_.startup.Run(started, [this](const Startup::Outcome& outcome) { Ready(outcome); });
}

void Lifecycle::Ready(const Startup::Outcome& outcome) {
  if (!outcome.why.empty()) return shutdown_.Decline(outcome);
  // It is durable by now: what is named by it is new (conversation 11).
  chief_.term = outcome.term;
  chief_.members.Begin(chief_.context.now, outcome.term, chief_.journal.record().run);
  for (const CheckpointStore::Damaged& damaged : chief_.store.damaged()) chief_.failures.Add("chief", damaged.why);
  chief_.context.out.Info(
      absl::StrCat("job ", chief_.job.name, " waits for its tasks at ", chief_.endpoint, " (term ", chief_.term, ")"));
  for (const std::string& finding : outcome.findings) chief_.failures.Add("chief", finding);
  chief_.changes = outcome.changes;
  for (const std::string& change : outcome.changes)
    chief_.context.out.Info("changed since the job was last led: " + change);
  if (const uint32_t scaled = chief_.journal.record().workers; scaled != 0) {
    chief_.members.SetWorkerCount(scaled);
    chief_.members.DropRetired();
    chief_.context.out.Info(absl::StrCat("the job was scaled to ", Counted(scaled, "worker"), "; its file says ",
                                         chief_.job.cluster.worker_count));
  }
  if (outcome.goes_on) {
    chief_.failures.Add("chief", "it was started again; slices that a ps still holds go on");
    if (chief_.journal.record().data) chief_.recovery.Expect();
  }
  sources_ = outcome.sources;
  initial_ = outcome.initial;
  lost_ = outcome.lost;
  if (!lost_.empty()) chief_.rounds.NoteLoss(lost_);
  if (sources_.empty()) {
    if (chief_.journal.record().data) chief_.data.Recall(*chief_.journal.record().data, "the journal");
    if (chief_.options.resume && !outcome.goes_on) {
      chief_.context.out.Info("there is no checkpoint to go on from: the job begins anew");
    }
    return;
  }
  const Manifest& newest = sources_.front();
  const Round known = chief_.journal.record().newest;
  if (known > chief_.store.newest()) {
    chief_.failures.Add("chief", absl::StrCat(chief_.store.WhyNot(known), "; an older checkpoint is gone on from"));
  }
  chief_.data.Recall(DataOf(newest), absl::StrCat("checkpoint ", ToString(newest.round)));
  chief_.resumed.Open(chief_.data.plan(), newest.committed);
  chief_.rounds.Resume(newest);
  chief_.context.out.Info(absl::StrCat("the newest checkpoint is ", CheckpointDir(newest.round)));
}

void Lifecycle::Prepare() {
  const bool servers_here = chief_.assignment.placed() || chief_.members.AllAlive(TaskRole::kPs);
  if (chief_.data.fixed()) {
    chief_.journal.record().data = chief_.data.shape();
    chief_.journal.Advance();
  }
  // Conversation 11: the journal has the data before slices are placed for them.
  if (servers_here && !chief_.assignment.placed() && chief_.data.fixed() && chief_.journal.durable()) {
    chief_.assignment.Place(chief_.term, chief_.members.Alive(TaskRole::kPs), chief_.data.shape().train_examples,
                            std::exchange(sources_, {}), lost_, std::exchange(initial_, std::nullopt));
    chief_.recovery.Placed();
  }
  const std::vector<Task*> workers = chief_.members.Alive(TaskRole::kWorker);
  chief_.state = servers_here && !workers.empty() ? JobState::kPreparing : JobState::kQueued;
  const bool data_here = std::any_of(workers.begin(), workers.end(), [](const Task* task) { return task->data_good; });
  if (!data_here) return FailIfNobodyHasData();
  if (chief_.assignment.complete()) Run();
}

void Lifecycle::FailIfNobodyHasData() {
  const auto& refused = chief_.data.refused();
  for (const Task& task : chief_.members.tasks()) {
    const bool may_have_it = task.role == TaskRole::kWorker && !chief_.members.IsRetired(task);
    if (may_have_it && !refused.contains(task.name)) return;
  }
  // Other data stay other data; whoever lacked room or could not read may be luckier the next time.
  auto why = std::find_if(refused.begin(), refused.end(),
                          [](const auto& task) { return !absl::IsFailedPrecondition(task.second); });
  if (why == refused.end()) why = refused.begin();
  Fail(absl::Status(why->second.code(), "no worker can prepare for the job: " + MessageOf(why->second)));
}

void Lifecycle::Run() {
  chief_.state = JobState::kRunning;
  const Time now = running_since_ = chief_.context.now;
  const uint64_t eval_examples = chief_.job.data.has_eval() ? chief_.data.shape().eval_examples : 0;
  // core 1: the ledger begins with what slices report, and with nothing else.
  chief_.ledger.Open(chief_.data.plan(), chief_.assignment.TakeFinished(),
                     static_cast<size_t>(chief_.job.training.backup_workers));
  chief_.ledger.EndAfter(chief_.journal.record().early.epochs);
  ledger_current_ = true;
  const uint64_t before = chief_.journal.batches_committed();  // under another chief
  if (const uint64_t now_held = chief_.ledger.batches_committed(); before > now_held) Recompute(before - now_held);
  // With ssp and sync a lease is one step, too short for a part: each part is granted again until it is answered.
  const TrainingSpec& training = chief_.job.training;
  const int64_t part =
      std::max(training.lease_batches, training.consistency == Consistency::kAsync ? 1 : TrainingSpec().lease_batches);
  chief_.evaluation = Evaluation(eval_examples, training.batch_size, part, training.metrics);
  chief_.progress.Begin(now, chief_.ledger.examples_committed());
  chief_.learning = LearningWatch::OfJob(chief_.job, chief_.data.plan().train_examples());
  evaluated_epochs_ = chief_.ledger.EpochsCommitted();
  chief_.interval.Begin(now, chief_.journal.checkpoint_history());
  for (const Task* worker : chief_.members.Alive(TaskRole::kWorker)) SendPlacement(*worker);
  chief_.context.out.Info(
      absl::StrCat("runs: ", chief_.ledger.committed().Count(), " of ", chief_.ledger.goal(), " leases are committed"));
}

void Lifecycle::SendPlacement(const Task& worker) {
  // Conversation 5: not before every slice has reported where it is now.
  const bool is_new = worker.placement_number < chief_.assignment.placement_number();
  if (!chief_.runs() || !ledger_current_ || !worker.data_good || !is_new) return;
  chief_.context.out.SendTo(worker.control, chief_.assignment.ToPlacement(worker.incarnation));
}

// ---- Running --------------------------------------------------------------------------------------------------------

void Lifecycle::Tick() {
  if (!ready() || chief_.ended()) return;
  for (const Task* task : chief_.members.TakeSilent(chief_.context.now)) {
    Lost(*task, absl::StrFormat("no heartbeat for %.1f s", Seconds(chief_.context.now - task->heard)));
  }
  UpdateTaskStates();
  if (!chief_.HasWork()) chief_.progress.Move(chief_.context.now);  // nobody stands still who has nothing to do
  if (chief_.state != JobState::kCancelling) chief_.recovery.Tick();
  FailIfTooManySkips();
  CancelIfOutOfTime();
  chief_.assignment.Tick();
  chief_.rounds.Tick();
  if (chief_.state != JobState::kCancelling) chief_.departures.Tick();  // else the job's end lets all go
  work_.Tick();
}

void Lifecycle::Advance() {
  if (shutdown_.exited()) return;
  if (!ready()) {
    if (chief_.ended()) shutdown_.Advance();
    return;
  }
  Round& newest = chief_.journal.record().newest;
  if (const auto& durable = chief_.rounds.durable()) newest = std::max(newest, durable->round);
  chief_.best.Observe();
  if (ledger_current_) chief_.journal.NoteCommitted(chief_.ledger.batches_committed());
  if (chief_.ledger.is_open()) ObserveCheckpoints();
  chief_.journal.Advance();
  if (chief_.ended()) return shutdown_.Advance();
  if (!chief_.assignment.failure().ok()) return Fail(chief_.assignment.failure());
  if (chief_.state != JobState::kCancelling) chief_.recovery.Advance();
  if (!chief_.recovery.failure().ok()) return Fail(chief_.recovery.failure());
  if (const auto skipped = chief_.rounds.too_many_skipped()) return FailOfSkips(*skipped);
  // core 1: before the ledger grants or commits anything more.
  FollowReports();
  if (chief_.state == JobState::kQueued || chief_.state == JobState::kPreparing) Prepare();
  if (chief_.state == JobState::kRunning) Train();
  if (chief_.state == JobState::kCancelling) Cancel();
}

void Lifecycle::UpdateTaskStates() {
  for (const Assignment::Server& server : chief_.assignment.servers()) {
    Task* task = chief_.members.FindAlive(server.incarnation);
    if (task != nullptr && server.unreported == 0) task->state = TaskState::kRunning;
  }
  for (Task* worker : chief_.members.Alive(TaskRole::kWorker)) {
    const bool placed =
        chief_.assignment.complete() && worker->placement_number >= chief_.assignment.placement_number();
    worker->state = worker->data_good && placed ? TaskState::kRunning : TaskState::kPreparing;
  }
}

// The ledger is a cache of what slices say. That becomes less by a restore, or if a worker reported what was not so.
void Lifecycle::FollowReports() {
  if (const std::optional<IntervalSet> finished = chief_.rounds.TakeLacking()) Reopen(*finished);
  if (!chief_.runs() || std::exchange(ledger_current_, chief_.assignment.complete()) || !ledger_current_) return;
  chief_.best.ForgetEvaluations();
  Reopen(chief_.assignment.TakeFinished());
  for (const Task* worker : chief_.members.Alive(TaskRole::kWorker)) SendPlacement(*worker);
  work_.Dispatch();
}

void Lifecycle::Reopen(const IntervalSet& finished) {
  const IntervalSet reopened = chief_.ledger.Restrict(finished);
  if (reopened.empty()) return;
  Recompute(chief_.ledger.plan().BatchesIn(reopened));
  // It began with leases that are open again; the last one must be of all of them.
  chief_.evaluation.Abandon();
  final_evaluation_ = false;
  rounds_before_reopening_ = rounds_begun_;
  work_.Dispatch();
}

void Lifecycle::Recompute(uint64_t batches) {
  chief_.journal.costs().batches_recomputed += batches;
  chief_.failures.Add(
      "chief", absl::StrCat(batches, " batches that were committed are computed again, since a slice lacks them"));
}

// Heartbeats tell soon but late. What the job's success rests on is the count in the records of its last round.
void Lifecycle::FailIfTooManySkips() {
  const uint64_t skipped = chief_.members.Totals(TaskRole::kPs).pushes_skipped;
  if (skipped > MostSkipped()) FailOfSkips(skipped);
}

void Lifecycle::FailOfSkips(uint64_t skipped) {
  chief_.diverged = true;
  Fail(absl::AbortedError(
      absl::StrCat(skipped, " pushes were skipped, more than training.maxSkippedPushes (", MostSkipped(),
                   ") allows: the logs of the ps say why; if they were not finite, the model diverged: try a lower",
                   " training.optimizer.learningRate")));
}

// The last evaluation is that of the final values.
bool Lifecycle::Diverged() const {
  const auto& result = chief_.evaluation.result();
  return chief_.job.data.has_eval() && result && !std::isfinite(result->loss);
}

void Lifecycle::Train() {
  if (!ledger_current_) return;
  Evaluate();
  chief_.best.Observe();  // before the round of the values that are evaluated begins
  Checkpoint();
  const bool evaluated = final_evaluation_ && !chief_.evaluation.active();
  if (evaluated && Diverged()) {
    chief_.diverged = true;
    return Fail(absl::AbortedError(
        "the loss of the last evaluation is not finite: the model diverged; try a lower"
        " training.optimizer.learningRate, in another job folder if the last checkpoint already holds every lease"));
  }
  // A12: workers are let go only now, since a lost slice would need them until then.
  if (evaluated && AllDurable()) shutdown_.Begin(JobState::kSucceeded, "the job has succeeded", 0);
}

void Lifecycle::Evaluate() {
  const uint64_t epochs = chief_.ledger.EpochsCommitted();
  if (chief_.ledger.AllCommitted()) {
    if (final_evaluation_) return;
    final_evaluation_ = true;
    chief_.evaluation.Begin(epochs, /*values_frozen=*/true);
    return work_.Dispatch();
  }
  const auto every = static_cast<uint64_t>(chief_.job.training.evaluate_every_epochs);
  if (every == 0 || chief_.evaluation.active() || epochs / every * every <= evaluated_epochs_) return;
  evaluated_epochs_ = epochs;
  chief_.evaluation.Begin(epochs, /*values_frozen=*/false);
  work_.Dispatch();
}

// A round of before leases were opened again held them by a record that could not be had when it was needed.
bool Lifecycle::AllDurable() const {
  const auto& durable = chief_.rounds.durable();
  return durable && durable->round.term == chief_.term && durable->round.n > rounds_before_reopening_ &&
         chief_.ledger.AllCommitted() && durable->committed.CoversRange(0, chief_.ledger.goal());
}

void Lifecycle::ObserveCheckpoints() {
  using End = CheckpointInterval::End;
  const bool steady = ledger_current_ && chief_.recovery.here();
  chief_.interval.Observe({chief_.context.now, chief_.ledger.commits(), chief_.journal.costs().servers_lost, steady,
                           chief_.rounds.collecting()});
  if (chief_.interval.in_round() && !chief_.rounds.active()) {
    const auto& durable = chief_.rounds.durable();
    const bool succeeded = durable && durable->round == chief_.rounds.newest();
    const bool of_disk = chief_.rounds.last_error_cause() == CheckpointRounds::Cause::kDisk;
    chief_.interval.RoundEnds(chief_.context.now, succeeded                 ? End::kDurable
                                                  : !chief_.rounds.failed() ? End::kStopped
                                                  : of_disk                 ? End::kDiskFailed
                                                                            : End::kAbandoned);
  }
  chief_.journal.NoteCheckpoints(chief_.interval.history());
}

void Lifecycle::Checkpoint() {
  // A round needs every slice's ps.
  if (!chief_.recovery.here()) return;
  if (chief_.departures.any()) return CheckpointForDepartures();
  if (chief_.rounds.active() || AllDurable()) return;
  const bool is_last = chief_.ledger.AllCommitted();
  if (is_last && !last_round_begun_) next_last_round_ = chief_.context.now;
  if (is_last ? chief_.context.now < next_last_round_ : !chief_.interval.IsDue(chief_.context.now)) return;
  last_round_begun_ = is_last;
  StartRound();
  // The round that ends the job is tried again soon, whatever `every` says.
  next_last_round_ = chief_.context.now + chief_.options.timing.dead_after;
}

void Lifecycle::CheckpointForDepartures() {
  if (!chief_.departures.round_due()) return;
  chief_.rounds.Stop();  // it began before their word, and they have little time
  if (chief_.rounds.active()) return;
  chief_.departures.RoundBegins();
  StartRound();
}

// Urgent is the round that ends the job: workers have nothing more to do then, or will be told to leave in a moment;
// and one that lets a ps go.
void Lifecycle::StartRound() {
  const bool ends_job = chief_.state == JobState::kCancelling || chief_.ledger.AllCommitted();
  const bool urgent = ends_job || chief_.departures.any();
  chief_.interval.RoundBegins(chief_.context.now, urgent);
  // A5: the name is used up now, whatever becomes of the round.
  chief_.rounds.Start({chief_.term, ++rounds_begun_},
                      {CanonicalJob(chief_.job), chief_.data.shape(), chief_.ledger.committed(), MostSkipped()},
                      urgent);
}

// ---- Losses ---------------------------------------------------------------------------------------------------------

void Lifecycle::Lost(const Task& task, const std::string& how) {
  // A ps holds no leases. Those of a worker are open at once: evidence decides, whoever computed (core 5).
  const uint64_t handed_on = work_.Release(task.incarnation);
  const bool said_goodbye = task.state == TaskState::kLeft;
  const std::string why = task.may_leave() && !said_goodbye
                              ? absl::StrCat(how, "; it had been told to stop (", task.leaving, ") and let go")
                              : how;
  chief_.failures.Add(
      task.name,
      absl::StrCat(why, handed_on == 0 ? "" : absl::StrCat("; ", Counted(handed_on, "lease"), " handed on")));
  if (task.role == TaskRole::kWorker) {
    ++chief_.journal.costs().workers_lost;
  } else {
    chief_.recovery.Lost(task, why);
  }
}

void Lifecycle::RefuseForGood(Task& task, RefusalCode code, const std::string& why) {
  task.refusal = {code, true, why, task.incarnation, chief_.journal.record().run};
  task.state = TaskState::kRefused;
  chief_.context.out.SendTo(task.control, task.refusal);
  // An exit must leave the process time to read why.
  shutdown_.GrantRefusalGrace();
  chief_.failures.Add(task.name, absl::StrCat("refused: ", why));
  work_.Release(task.incarnation);
}

// ---- Failure and cancellation ---------------------------------------------------------------------------------------

std::string Lifecycle::HowToGoOn() const {
  return downpour::HowToGoOn(chief_.LastCheckpoint(), chief_.CommandToStart());
}

void Lifecycle::Fail(const absl::Status& why) {
  const std::string remedy = absl::IsDataLoss(why) ? RemedyOfLoss(chief_.journal.record().newest) : HowToGoOn();
  shutdown_.Begin(JobState::kFailed, absl::StrCat(MessageOf(why), ". ", remedy),
                  absl::IsFailedPrecondition(why) ? kExitBadJobFile : kExitFailed);
}

void Lifecycle::Stop(const StopRequested& stop) {
  const std::string why = "ended by " + Reason(stop);
  const int exit_code = kExitSignalled + stop.signal;
  if (!ready()) return shutdown_.Interrupt(why, exit_code);
  BeginCancel(why, exit_code);
}

void Lifecycle::CancelIfOutOfTime() {
  const Duration limit = chief_.job.scheduling.max_running_time;
  if (chief_.state != JobState::kRunning || limit == Duration::zero()) return;
  if (chief_.context.now - running_since_ < limit) return;
  BeginCancel(absl::StrFormat("it has run for the %.10g s of scheduling.maxRunningTime, which each start counts anew",
                              Seconds(limit)),
              kExitOutOfTime);
}

void Lifecycle::BeginCancel(const std::string& why, int exit_code) {
  if (chief_.ended() || chief_.state == JobState::kCancelling) return;
  chief_.context.out.Warn(absl::StrCat("the job is cancelled after one last checkpoint: ", why));
  cancel_by_ = chief_.state == JobState::kRunning ? chief_.context.now + kLastRound : chief_.context.now;
  chief_.rounds.Stop();  // the last one holds all that this one would, and has little time
  chief_.departures.Clear();
  last_round_begun_ = false;
  cancel_why_ = why;
  cancel_exit_code_ = exit_code;
  chief_.state = JobState::kCancelling;
}

void Lifecycle::Cancel() {
  // A round that cannot become whole in time is not waited for.
  if (chief_.context.now < cancel_by_ && ledger_current_ && chief_.recovery.here()) {
    if (chief_.rounds.active()) return;
    if (!std::exchange(last_round_begun_, true)) return StartRound();
  }
  shutdown_.Begin(JobState::kCancelled, absl::StrCat(cancel_why_, ". ", HowToGoOn()), cancel_exit_code_);
}

}  // namespace downpour
