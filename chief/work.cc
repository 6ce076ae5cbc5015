#include "chief/work.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/text.h"

namespace downpour {

bool Work::any() const {
  return chief_.life.state == JobState::kRunning && (!chief_.ledger.AllCommitted() || chief_.evaluation.active());
}

absl::Status Work::Receive(Task& worker, const WorkRequest& request) {
  if (request.number <= worker.work_request) return absl::OkStatus();
  worker.work_request = request.number;
  if (!worker.data_good) return absl::InvalidArgumentError("a request for work before its data was accepted");
  if (chief_.life.state != JobState::kRunning) return absl::OkStatus();
  const absl::StatusOr<std::vector<LeaseId>> lost_grants =
      chief_.ledger.Ask(worker.incarnation, request.holding, request.wanted);
  if (!lost_grants.ok()) return lost_grants.status();
  NoteGivenBack(lost_grants->size());
  for (const LeaseId lease : *lost_grants) Send(worker.incarnation, lease);
  if (request.wanted > 0) Offer(worker);
  Dispatch();
  return absl::OkStatus();
}

// With ssp and sync all leases wait for the lowest that a slice lacks. If a worker falsely reported that one as done,
// the ledger grants it to no worker. Slices refuse all others as too early, so workers give them back, which looks like
// grants that were lost. A round's records say what slices lack. In async the round which ends the job is soon enough.
void Work::NoteGivenBack(size_t leases) {
  if (chief_.job.training.consistency == Consistency::kAsync) return;
  given_back_ += leases;
  if (given_back_ < kSuspect) return;
  given_back_ = 0;
  chief_.interval.WantRound();
}

void Work::Send(Incarnation worker, LeaseId lease) {
  if (const Task* task = chief_.members.Find(worker)) chief_.context.out.SendTo(task->control, Grant{worker, lease});
}

void Work::Offer(const Task& worker) {
  for (const EvalGrant& grant : chief_.evaluation.Offer(worker.incarnation)) {
    chief_.context.out.SendTo(worker.control, grant);
  }
}

void Work::Dispatch() {
  if (chief_.life.state != JobState::kRunning || !chief_.restore.complete()) return;
  for (const LeaseLedger::Granted& granted : chief_.ledger.Distribute()) {
    TraceRecord trace;
    trace.kind = TraceRecord::Kind::kGranted;
    trace.lease = granted.lease;
    trace.peer = granted.worker;
    chief_.context.out.Add(trace);
    Send(granted.worker, granted.lease);
  }
  if (!chief_.evaluation.active()) return;
  for (const Task* worker : chief_.members.Alive(TaskRole::kWorker)) {
    if (chief_.ledger.Wants(worker->incarnation)) Offer(*worker);
  }
}

void Work::Tick() {
  if (chief_.context.now < next_repeat_) return;
  next_repeat_ = chief_.context.now + chief_.timing.control_retry;
  for (const EvalGrant& grant : chief_.evaluation.Outstanding()) {
    if (const Task* task = chief_.members.Find(grant.to)) chief_.context.out.SendTo(task->control, grant);
  }
}

uint64_t Work::Release(Incarnation worker) {
  const uint64_t handed_on = chief_.ledger.Release(worker).size();
  chief_.journal.costs().leases_handed_on += handed_on;
  chief_.evaluation.Release(worker);
  Dispatch();
  return handed_on;
}

// Of a lease that it holds: one that held it before is late, and what is committed needs no more. Or in an evaluation.
// Or before it could say what data it has.
void Work::NoteCodeFailure(const Task& worker, const Leave& leave, const std::string& why) {
  const std::vector<LeaseId> held = chief_.ledger.HeldBy(worker.incarnation);
  const int64_t workers = chief_.members.worker_count();
  const bool alone = workers == 1;
  const bool in_step = std::find(held.begin(), held.end(), leave.lease) != held.end();
  if (!in_step && !chief_.evaluation.IsAt(worker.incarnation) && worker.data_good) return;
  if (leave.code_ended) return code_failures_.NoteEnd(worker.name, why);
  if (in_step) {
    code_failures_.Note(leave.lease, worker.name, why, alone);
  } else if (worker.data_good) {
    code_failures_.NoteInEvaluation(worker.name, why, alone);
  }
  code_failures_.NoteAt(chief_.context.now, worker.index, worker.name, why, workers);
}

void Work::Commit(LeaseId lease) {
  code_failures_.Committed(lease);
  if (given_back_ > 0) --given_back_;  // no more: this report may be false, too
  TraceRecord trace;
  trace.kind = TraceRecord::Kind::kCommitted;
  trace.lease = lease;
  chief_.context.out.Add(trace);
  chief_.progress.Commit(chief_.context.now, chief_.ledger.examples_committed());
  Dispatch();  // further leases may be within reach now
}

// Evidence counts whoever brings it: a lease that was handed on may still be ended by the one that had it before.
absl::Status Work::Receive(PeerId from, const LeaseDone& done) {
  if (!chief_.members.Issued(done.from)) return absl::InvalidArgumentError("a lease done by a process unknown here");
  const Task* task = chief_.members.Find(done.from);
  if (task != nullptr && task->state == TaskState::kRefused) return absl::InvalidArgumentError("it was ejected");
  if (!chief_.restore.complete() || chief_.life.ended()) return absl::OkStatus();
  // The last round's records may lack it: the next start would count it as computed again. JobEnd lets the worker go.
  if (chief_.life.state == JobState::kCancelling && chief_.rounds.active()) return absl::OkStatus();
  const uint64_t commits = chief_.ledger.commits();
  const absl::StatusOr<bool> committed = chief_.ledger.Decide(done, chief_.placement.epochs());
  if (!committed.ok()) return committed.status();
  chief_.context.out.SendTo(from, LeaseDoneReply{done.lease, *committed});
  if (chief_.ledger.commits() == commits) return absl::OkStatus();  // it was before, or is beyond the job's end
  Commit(done.lease);
  if (done.examples > chief_.ledger.plan().ExamplesOf(done.lease)) {
    return absl::InvalidArgumentError(absl::StrCat("a lease with a loss over ", done.examples, " examples"));
  }
  const double weight = chief_.job.data.is_weighted() ? done.weight : static_cast<double>(done.examples);
  if (!IsWeightOf(done.examples, weight)) {
    return absl::InvalidArgumentError(absl::StrCat("a lease whose examples weigh ", weight));
  }
  chief_.progress.ReportLoss(done.loss_sum, weight);
  chief_.progress.NoteEpochs(chief_.ledger.EpochsCommitted());
  chief_.learning.ReportLease(done.loss_sum, done.examples, weight);
  WarnOfTrouble();
  return absl::OkStatus();
}

void Work::WarnOfTrouble() {
  const LearningWatch::Trouble trouble = chief_.learning.trouble();
  if (trouble == std::exchange(warned_of_, trouble) || trouble == LearningWatch::Trouble::kNone) return;
  chief_.context.out.Warn("training diverges: " + WhyItDiverges(chief_.learning, chief_.job,
                                                                chief_.members.worker_count(),
                                                                chief_.members.Totals(TaskRole::kPs)));
}

// An evaluation is in. Where it uses up the patience of training.stopEarly, the job ends with the epochs begun so far.
void Work::ConsiderStopping() {
  const auto& spec = chief_.job.training.stop_early;
  EarlyStop& early = chief_.journal.record().early;
  if (!spec || early.epochs != 0 || chief_.ledger.AllCommitted()) return;
  const Evaluation::Result& result = *chief_.evaluation.result();
  if (!UsesUpPatience(chief_.job.training, ValueOf(spec->metric, result), result.epoch, &early)) return;
  // Whole epochs: no lease that somebody computes is in vain, and all that ends a job of fewer epochs ends this one.
  // Those begun include leases that were lost since: some slice may have them, and then the others need them too.
  const uint64_t epochs = chief_.ledger.EpochsBegun();
  if (epochs >= static_cast<uint64_t>(chief_.job.training.epochs)) return;
  early.epochs = epochs;
  chief_.ledger.EndAfter(epochs);
  chief_.context.out.Info("stops early: " + WhyItStopsEarly(chief_.job.training, early));
}

absl::Status Work::Receive(PeerId from, const EvalDone& done) {
  const bool was_active = chief_.evaluation.active();
  if (absl::Status status = chief_.evaluation.Accept(done); !status.ok()) return status;
  chief_.context.out.SendTo(from, EvalDoneReply{done.round, done.first_batch});
  chief_.progress.Move(chief_.context.now);
  if (was_active && !chief_.evaluation.active()) {
    code_failures_.Evaluated();
    const Evaluation::Result& result = *chief_.evaluation.result();
    const bool has_accuracy = chief_.job.model.has_accuracy();
    const std::string accuracy = has_accuracy ? absl::StrFormat(", accuracy %.4f", result.accuracy) : "";
    chief_.context.out.Info(absl::StrFormat("evaluation after %s: loss %.4f%s on %d examples",
                                            Counted(result.epoch, "epoch"), result.loss, accuracy, result.examples));
    const uint64_t fewer = chief_.journal.record().early.epochs;  // 0: it does not stop early
    const uint64_t epochs = fewer == 0 ? static_cast<uint64_t>(chief_.job.training.epochs) : fewer;
    chief_.learning.ReportEvaluation({.loss = result.loss,
                                      .accuracy = result.accuracy,
                                      .share = static_cast<double>(result.epoch) / static_cast<double>(epochs),
                                      .guesses = chief_.data.guesses()});
    WarnOfTrouble();
    ConsiderStopping();
  }
  if (const Task* worker = chief_.members.FindAlive(done.from);
      worker != nullptr && chief_.life.state == JobState::kRunning) {
    Offer(*worker);
  }
  return absl::OkStatus();
}

}  // namespace downpour
