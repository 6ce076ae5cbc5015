#include "worker/worker_role.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "job/plan_check.h"
#include "runtime/exit_code.h"
#include "runtime/input_bound.h"
#include "runtime/plan.h"
#include "schema/text.h"
#include "worker/code_fetch.h"
#include "worker/epilogue_work.h"
#include "worker/exchange.h"
#include "worker/schedule.h"

namespace downpour {
namespace {

constexpr PeerId kFirstPs{2};
constexpr Ticket kFirstStep{uint64_t{1} << 32};  // below: preparations
constexpr Ticket kEpilogue{UINT64_MAX};          // there is one in a process

}  // namespace

class WorkerRole::Impl {
 public:
  explicit Impl(WorkerOptions options)
      : session_(TaskRole::kWorker, std::move(options.member)),
        leases_held_(options.leases_held),
        steps_in_flight_(options.steps_in_flight) {}

  void Step(Time now, Input input, Effects& effects);

  const MemberSession& session() const { return session_; }
  std::vector<LeaseId> Holding() const;
  // In a group of sync each worker takes one lease: whoever took two would have the others wait.
  size_t LeasesHeld() const { return job_.training.consistency == Consistency::kSync ? 1 : leases_held_; }

 private:
  void On(Started& started) { session_.Start(now_, started, *out_); }
  void On(Tick&);
  void On(Received& received);
  void On(Malformed& malformed) { session_.Reject(malformed, *out_); }
  void On(Reconnected& link);
  void On(Warned& warned) { session_.PassOn(warned); }
  void On(StorageDone&) {}
  void On(ComputeDone& done);
  void On(ResourceSample& sample) { session_.Sample(sample); }
  void On(StopRequested& stop) {
    session_.PrepareToLeave(now_, stop, kWorkerLeavesWithin, "what it computed is acknowledged", *out_);
  }

  void OnJoined();
  void OnRejoined();
  bool AdoptJob();
  void PrepareDevice(std::vector<Payload> code);
  void BeginAfresh(SliceGrid grid);

  void FromChief(Placement& placement);
  void FromChief(Grant& grant);
  void FromChief(LeaseDoneReply& reply);
  void FromChief(EvalGrant& grant);
  void FromChief(EvalDoneReply& reply);
  void FromChief(CodeBlock& block);
  void FromChief(EpilogueGrant& grant);
  void FromChief(RestoreSlice& record);
  void FromChief(auto&) { Reject(); }
  absl::Status FromPs(PeerId ps, PushReply& reply) { return exchange_->Receive(ps, reply, now_, *out_); }
  absl::Status FromPs(PeerId ps, PullReply& reply) { return exchange_->Receive(ps, reply, now_, *out_); }
  absl::Status FromPs(PeerId, auto&) {
    Reject();
    return absl::OkStatus();
  }

  void RunEpilogue();
  void EndEpilogue(ComputeDone& done);
  void PrepareIfSpent();
  void ReportData();
  void ReportDone();
  void AskForWork(bool even_if_full = false);  // then it says what it holds
  bool MayLeave() const;
  std::string Unacknowledged() const;
  std::string WaitingFor() const;

  bool ready() const { return exchange_.has_value() && exchange_->placement() != 0; }
  // By this chief's own placement: under one before it only what is held goes on.
  bool placed() const { return ready() && exchange_->placement_term() == session_.term(); }
  void Reject() { ++session_.stats().messages_rejected; }

  MemberSession session_;
  const size_t leases_held_;
  const size_t steps_in_flight_;
  Time now_;
  Effects* out_ = nullptr;  // of the step at hand

  // Of the run, since its first Welcome; a later chief may have it go on for longer, but never change its plan.
  uint64_t run_ = 0;
  JobSpec job_;
  SliceGrid grid_;
  uint64_t preparations_ = 0;       // asked of the device so far: the answer to the last one counts
  CodeFetch code_;                  // since the device lacks it
  std::string preparing_;           // what is waited for until then
  std::optional<DataReport> data_;  // since the device has prepared it
  std::optional<Exchange> exchange_;
  std::optional<Schedule> schedule_;

  EpilogueWork epilogue_;  // of the process: its program runs once
  bool spent_ = false;     // the device has run it, and is to be prepared before it does anything else

  // Of this membership.
  std::optional<Plan> plan_;  // since the first Placement
  Time next_data_report_;
  Time next_work_request_;
  uint64_t work_requests_ = 0;
};

void WorkerRole::Impl::Step(Time now, Input input, Effects& effects) {
  if (session_.ended()) return;
  now_ = now;
  out_ = &effects;
  std::visit([this](auto& in) { On(in); }, input);
  if (session_.ended()) return;
  if (session_.leaving() && MayLeave()) return session_.Depart(Unacknowledged(), *out_);
  if (!session_.member()) return;
  if (code_.wants()) code_.Advance(now_, session_, *out_);
  if (!placed()) ReportData();
  if (!ready()) return;
  ReportDone();
  RunEpilogue();
  if (epilogue_.active()) return schedule_->LetGo(*out_);
  if (!session_.leaving() && !spent_) schedule_->Advance(now_, *out_);
}

void WorkerRole::Impl::On(Tick&) {
  session_.stats().waiting_for = WaitingFor();
  session_.Tick(now_, placed() ? exchange_->placement() : 0, *out_);
  if (session_.ended() || !ready()) return;
  exchange_->Tick(now_, *out_);
  schedule_->Tick(now_, *out_);
  if (placed() && now_ >= next_work_request_) AskForWork();
}

void WorkerRole::Impl::On(Received& received) {
  if (session_.IsForeign(received)) return Reject();
  if (received.from == MemberSession::kChief) {
    switch (session_.Receive(now_, received.message, *out_)) {
      case MemberSession::News::kHandled:
        return;
      case MemberSession::News::kJoined:
        return OnJoined();
      case MemberSession::News::kRejoined:
        return OnRejoined();
      case MemberSession::News::kRetired: {
        StopRequested stop = {.signal = 0, .notice = "the job's scaling to fewer workers"};
        return On(stop);
      }
      case MemberSession::News::kNotMine:
        break;
    }
    if (!session_.member()) return Reject();
    return std::visit([&](auto& message) { FromChief(message); }, received.message);
  }
  if (!ready()) return Reject();
  const absl::Status status = std::visit([&](auto& m) { return FromPs(received.from, m); }, received.message);
  if (!status.ok()) session_.End(kExitFailed, std::string(status.message()), *out_);
}

// The chief is asked again within control_retry anyway.
void WorkerRole::Impl::On(Reconnected& link) {
  if (ready()) exchange_->SendAgain(link.peer, now_, *out_);
}

// Told to stop it begins nothing new, and hands back what it holds by leaving: once nothing that it computed, or knows
// to be done, is still on its way to where it counts.
bool WorkerRole::Impl::MayLeave() const {
  if (!ready() || now_ >= session_.leave_by()) return true;
  if (epilogue_.running()) return false;
  const bool hears = session_.member();  // else nobody takes a report
  return (schedule_->idle() || schedule_->waits_for_rows()) &&
         std::all_of(exchange_->leases().begin(), exchange_->leases().end(), [&](const auto& lease) {
           return lease.in_flight.step_count() == 0 && !(hears && lease.progress.Done());
         });
}

// Of what it leaves behind, for people; empty: nothing.
std::string WorkerRole::Impl::Unacknowledged() const {
  if (!exchange_) return "";
  size_t steps = 0, leases = 0;
  for (const HeldLease& lease : exchange_->leases()) {
    steps += lease.in_flight.step_count();
    leases += lease.in_flight.step_count() > 0;
  }
  if (steps == 0) return "";
  const std::string by = exchange_->Owing();
  return absl::StrCat("; ", Counted(steps, "step"), " of ", Counted(leases, "lease"), " stayed unacknowledged",
                      by.empty() ? "" : " by ", by, ": handed on, and computed again where missing");
}

// ---- Membership -----------------------------------------------------------------------------------------------------

void WorkerRole::Impl::OnJoined() {
  if (exchange_) {
    exchange_->Clear(*out_);
    schedule_->Clear();
    plan_.reset();
  }
  if (!AdoptJob()) return;
  next_data_report_ = now_;
}

// A later chief of the same run: leases go on, and are told to it; evaluation begins again.
void WorkerRole::Impl::OnRejoined() {
  if (!AdoptJob()) return;
  schedule_->Clear();
  next_data_report_ = now_;
}

// False: the process ends. Of a job that has changed the device is told again, and forgets what it had loaded.
bool WorkerRole::Impl::AdoptJob() {
  const bool other_run = run_ != session_.run();
  if (exchange_ && !other_run && !session_.job_changed()) return true;
  std::optional<MemberSession::Job> job = session_.ReadJob(*out_);
  if (!job) return false;
  if (epilogue_.active()) {
    session_.End(kExitFailed, "the chief now runs another job, amid the rest of this one's program", *out_);
    return false;
  }
  // Other files may hold other data: nobody has judged them yet, and what is held would go on with them.
  if (exchange_ && !other_run && (!PlanDifferences(job->spec, job_).empty() || job->spec.data != job_.data)) {
    session_.End(kExitFailed, "the chief now runs another job", *out_);
    return false;
  }
  job_ = std::move(job->spec);
  if (!exchange_ || other_run) BeginAfresh(std::move(job->grid));
  schedule_->UsePullAhead(job_.training.pull_ahead);
  if (plan_) plan_.emplace(job_, plan_->train_examples());
  data_.reset();
  code_.Forget();
  schedule_->ForgetDevice();
  PrepareDevice({});
  return true;
}

void WorkerRole::Impl::PrepareDevice(std::vector<Payload> code) {
  spent_ = false;
  preparing_ = job_.python.module.empty() ? "its data to be indexed" : "its Python code to call downpour.fit";
  out_->Add(Compute{Ticket{++preparations_}, Prepare{job_, std::move(code), session_.name()}});
}

// In another run. What the device is still at comes under a ticket that nobody waits for, before it has prepared.
void WorkerRole::Impl::BeginAfresh(SliceGrid grid) {
  const PeerId first_peer = exchange_ ? exchange_->next_peer() : kFirstPs;
  const Ticket first_ticket = schedule_ ? schedule_->next_ticket() : kFirstStep;
  schedule_.reset();
  epilogue_ = EpilogueWork();
  run_ = session_.run();
  grid_ = std::move(grid);
  exchange_.emplace(&session_, &grid_, first_peer, job_.training.has_worker_state());
  schedule_.emplace(&session_, &grid_, &*exchange_, steps_in_flight_, first_ticket);
}

void WorkerRole::Impl::On(ComputeDone& done) {
  if (!schedule_) return;
  if (done.ticket == kEpilogue) return EndEpilogue(done);
  if (done.ticket < kFirstStep && done.ticket != Ticket{preparations_}) return;  // of a job before
  if (done.ticket >= kFirstStep) {
    const absl::Status status = schedule_->Receive(done, now_, *out_);
    if (status.ok()) return;
    return session_.End(kExitFailed, std::string(status.message()), *out_, false, schedule_->FailureOfCode(status));
  }
  if (const auto* at = std::get_if<Preparing>(&done.result)) {
    if (!at->waiting_for.empty()) preparing_ = at->waiting_for;
    return session_.Say(Severity::kInfo, at->what, *out_);
  }
  // Its process was killed: this one is started again, as after any death. The chief counts it, since memory may lack.
  if (absl::IsCancelled(done.status)) {
    return session_.End(kExitFailed, std::string(done.status.message()), *out_, false, MemberSession::CodeFailure{});
  }
  const auto* prepared = std::get_if<Prepared>(&done.result);
  if (prepared != nullptr && done.status.ok() && prepared->needs_code) return code_.Begin(job_.python);
  data_.emplace();
  if (prepared != nullptr && done.status.ok()) {
    data_->train_examples = prepared->train_examples;
    data_->eval_examples = prepared->eval_examples;
    data_->fingerprint = prepared->fingerprint;
    data_->guesses = prepared->guesses;
    data_->eval_fingerprint = prepared->eval_fingerprint;
    data_->files = prepared->files;
    if (!prepared->arithmetic.empty()) session_.Say(Severity::kInfo, "computes " + prepared->arithmetic, *out_);
  } else {
    data_->error = done.status.ok() ? "the device did not prepare the data" : std::string(done.status.message());
  }
}

void WorkerRole::Impl::FromChief(CodeBlock& block) {
  if (block.to != session_.incarnation()) return Reject();
  if (const absl::Status status = code_.Receive(block); !status.ok()) {
    if (absl::IsDataLoss(status)) session_.Say(Severity::kWarning, std::string(status.message()), *out_);
    return Reject();
  }
  if (code_.complete()) PrepareDevice(code_.Take());
}

void WorkerRole::Impl::ReportData() {
  if (!data_ || now_ < next_data_report_) return;
  data_->from = session_.incarnation();
  out_->SendTo(MemberSession::kChief, *data_);
  next_data_report_ = now_ + session_.timing().control_retry;
}

std::string WorkerRole::Impl::WaitingFor() const {
  if (!session_.member()) return "";
  if (session_.leaving()) return "its last answers, to leave";
  if (code_.wants()) return "its Python code from the chief";
  if (epilogue_.active()) return "the rest of its program to end";
  if (!data_) return preparing_;
  if (!ready()) return "the placement of the parameters";
  const std::string late = schedule_->Late(now_, CodePatience(job_.scheduling.max_running_time));
  if (!late.empty() && !job_.python.module.empty()) return absl::StrCat("its Python code to compute ", late);
  // A store may hang; a device is slow, but never does.
  if (!late.empty() && job_.data.has_records()) return absl::StrCat("its data, or its device, to end ", late);
  const std::string by = exchange_->Owing();
  if (schedule_->waits_for_rows()) return absl::StrCat("rows of tables", by.empty() ? "" : " from ", by);
  if (!schedule_->idle()) return schedule_->input_bounds_rate() ? kReadsMostOfTheTime : "";
  if (exchange_->leases().empty()) return "work";
  if (exchange_->fresh()) return absl::StrCat("pushes to be acknowledged", by.empty() ? "" : " by ", by);
  return absl::StrCat("parameters", by.empty() ? "" : " from ", by);
}

// ---- The rest of the program ----------------------------------------------------------------------------------------

void WorkerRole::Impl::FromChief(EpilogueGrant& grant) {
  if (grant.to != session_.incarnation() || !placed() || job_.python.module.empty()) return Reject();
  if (!session_.leaving()) epilogue_.Grant(grant);
}

void WorkerRole::Impl::FromChief(RestoreSlice& record) {
  if (record.to != session_.incarnation() || !grid_.Contains(record.slice)) return Reject();
  if (const absl::Status status = epilogue_.Receive(record, grid_); !status.ok()) {
    session_.Say(Severity::kWarning, absl::StrCat("a record that cannot be: ", status.message()), *out_);
    Reject();
  }
}

void WorkerRole::Impl::RunEpilogue() {
  epilogue_.Advance(now_, session_, grid_, *out_);
  if (!epilogue_.HasAll(grid_) || !schedule_->idle() || session_.leaving()) return;
  session_.Say(Severity::kInfo, "runs the rest of the program, behind fit()", *out_);
  out_->Add(Compute{kEpilogue, epilogue_.Begin()});
}

// What was killed is run again by another process: this one ends, as after any death of its child.
void WorkerRole::Impl::EndEpilogue(ComputeDone& done) {
  const auto* ended = std::get_if<EpilogueEnded>(&done.result);
  if (!done.status.ok() || ended == nullptr) {
    return session_.End(kExitFailed, absl::StrCat("the rest of the program: ", done.status.message()), *out_);
  }
  spent_ = true;
  epilogue_.End(ended->error);
}

// A chief that did not hear of the end yet may have other work first.
void WorkerRole::Impl::PrepareIfSpent() {
  if (!spent_) return;
  data_.reset();
  schedule_->ForgetDevice();
  PrepareDevice({});
}

// ---- Work -----------------------------------------------------------------------------------------------------------

void WorkerRole::Impl::FromChief(Placement& placement) {
  if (placement.to != session_.incarnation() || !data_) return Reject();
  // What it holds is of data that were given up since.
  if (plan_ && !GrowsTo(job_, plan_->train_examples(), placement.train_examples)) {
    return session_.End(kExitFailed, "the chief now runs another job", *out_);
  }
  const bool was_placed = placed();
  const absl::Status status = placement.train_examples == data_->train_examples
                                  ? exchange_->Place(placement, now_, *out_)
                                  : absl::InvalidArgumentError("it is for another data set");
  if (!status.ok()) {
    session_.Say(Severity::kWarning, absl::StrCat("a placement that cannot be: ", status.message()), *out_);
    return Reject();
  }
  if (!plan_ || plan_->train_examples() != placement.train_examples) plan_.emplace(job_, placement.train_examples);
  if (!was_placed && placed()) AskForWork(/*even_if_full=*/true);
}

void WorkerRole::Impl::AskForWork(bool even_if_full) {
  const std::vector<LeaseId> holding = Holding();
  const size_t room = epilogue_.active() ? 0 : LeasesHeld() - std::min(holding.size(), LeasesHeld());
  // While its program runs it says that it wants none: the chief may have leases for it that are open again.
  if (session_.leaving() || (room == 0 && !even_if_full && !epilogue_.active())) return;
  out_->SendTo(MemberSession::kChief, WorkRequest{.from = session_.incarnation(),
                                                  .holding = holding,
                                                  .wanted = static_cast<uint32_t>(room),
                                                  .number = ++work_requests_});
  next_work_request_ = now_ + session_.timing().control_retry;
}

std::vector<LeaseId> WorkerRole::Impl::Holding() const {
  std::vector<LeaseId> holding;
  if (!exchange_) return holding;
  for (const HeldLease& lease : exchange_->leases()) holding.push_back(lease.id);
  return holding;
}

void WorkerRole::Impl::FromChief(Grant& grant) {
  if (grant.to != session_.incarnation() || !placed() || !plan_ || !plan_->Contains(grant.lease)) return Reject();
  PrepareIfSpent();
  if (session_.leaving() || epilogue_.active()) return;
  // One that does not fit comes again: the chief sees in the next request that it is not held.
  if (exchange_->Find(grant.lease) || exchange_->leases().size() >= LeasesHeld()) return;
  exchange_->Hold(grant.lease, plan_->StepsOf(grant.lease), now_, *out_);
}

void WorkerRole::Impl::ReportDone() {
  for (HeldLease& lease : exchange_->leases()) {
    if (!lease.progress.Done() || now_ < lease.next_report) continue;
    LeaseDone done{.from = session_.incarnation(),
                   .lease = lease.id,
                   .evidence = {},
                   .loss_sum = lease.loss_sum,
                   .examples = lease.examples,
                   .weight = lease.weight};
    done.evidence.reserve(grid_.size());
    for (const Slice& slice : grid_.slices) done.evidence.push_back({slice.id, lease.progress.epoch(slice.id)});
    out_->SendTo(MemberSession::kChief, std::move(done));
    lease.next_report = now_ + session_.timing().control_retry;
  }
}

void WorkerRole::Impl::FromChief(LeaseDoneReply& reply) {
  HeldLease* lease = ready() ? exchange_->Find(reply.lease) : nullptr;
  if (lease == nullptr) return;  // doubled
  if (reply.committed) {
    exchange_->Release(reply.lease);
    if (placed()) AskForWork();
    return;
  }
  // Some slice has a newer epoch. Its placement asks that slice at once; else all are asked, in good time.
  lease->progress.ForgetAnswers();
  lease->next_probe = now_ + session_.timing().control_retry;
  lease->next_report = now_;
}

void WorkerRole::Impl::FromChief(EvalGrant& grant) {
  if (grant.to != session_.incarnation() || !placed()) return Reject();
  PrepareIfSpent();
  if (!session_.leaving()) schedule_->Grant(grant);
}

void WorkerRole::Impl::FromChief(EvalDoneReply& reply) {
  if (ready()) schedule_->Receive(reply);
}

// ---- The role -------------------------------------------------------------------------------------------------------

WorkerRole::WorkerRole(WorkerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
WorkerRole::~WorkerRole() = default;

void WorkerRole::Step(Time now, Input input, Effects& effects) {
  impl_->Step(now, std::move(input), effects);
  effects.SayIn(run());
}

uint64_t WorkerRole::run() const { return impl_->session().run(); }
Incarnation WorkerRole::incarnation() const { return impl_->session().incarnation(); }
std::vector<LeaseId> WorkerRole::holding() const { return impl_->Holding(); }
const TaskStats& WorkerRole::stats() const { return impl_->session().stats(); }

}  // namespace downpour
