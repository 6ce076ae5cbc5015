#include "worker/worker_role.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "runtime/member_session.h"
#include "runtime/plan.h"
#include "schema/job_file.h"
#include "worker/eval_work.h"
#include "worker/exchange.h"

namespace downpour {
namespace {

constexpr PeerId kFirstPs{2};

MemberOptions SessionOptions(const WorkerOptions& options) {
  MemberOptions member = MakeMemberOptions(TaskRole::kWorker, options);
  member.join.device = options.device;
  return member;
}

}  // namespace

class WorkerRole::Machine {
 public:
  explicit Machine(WorkerOptions options)
      : session_(SessionOptions(options)),
        leases_held_(options.leases_held),
        steps_in_flight_(options.steps_in_flight) {}

  void Step(Time now, Input input, Effects& effects);

  const MemberSession& session() const { return session_; }
  std::vector<LeaseId> Holding() const;

 private:
  // The request that the device is at.
  struct Running {
    Ticket ticket{};
    bool evaluates = false;
    LeaseId lease{};
    downpour::Step step = 0;
    std::vector<Version> computed_from;
    std::vector<bool> delivered;  // slices whose gradients came
  };

  void On(Started& started) { session_.Start(now_, started, *out_); }
  void On(Tick&);
  void On(Received& received);
  void On(Malformed&) { Reject(); }
  void On(StorageDone&) {}
  void On(ComputeDone& done);
  void On(ResourceSample& sample) { session_.Sample(sample); }
  void On(StopRequested& stop) { session_.End(143, absl::StrCat("ended by signal ", stop.signal), *out_); }

  void OnJoined();
  void OnDropped();

  void FromChief(Placement& placement);
  void FromChief(Grant& grant);
  void FromChief(LeaseDoneReply& reply);
  void FromChief(EvalGrant& grant);
  void FromChief(EvalDoneReply& reply) { eval_.Receive(reply); }
  void FromChief(auto&) { Reject(); }

  absl::Status FromPs(PeerId ps, PushReply& reply) { return exchange_->Receive(ps, reply, now_, *out_); }
  absl::Status FromPs(PeerId ps, PullReply& reply) { return exchange_->Receive(ps, reply, now_, *out_); }
  absl::Status FromPs(PeerId, auto&) {
    Reject();
    return absl::OkStatus();
  }

  // The device's answers.
  void Take(Prepared& prepared);
  void Take(Gradients& gradients);
  void Take(Evaluated& evaluated);
  void Take(std::monostate&) {}
  void Conclude(HeldLease& lease, const Gradients& last);

  void Advance();
  HeldLease* LeaseToCompute();
  void Train(HeldLease& lease);
  void Compute(ComputeRequest request, Running running);
  void ReportData();
  void ReportDone();
  void AskForWork();
  std::string WaitingFor() const;

  bool ready() const { return exchange_.has_value() && exchange_->placement() != 0; }
  void Reject() { ++session_.stats().messages_rejected; }

  MemberSession session_;
  const size_t leases_held_;
  const size_t steps_in_flight_;
  Time now_;
  Effects* out_ = nullptr;  // of the step at hand

  // Of the job; known since the first Welcome, and for good.
  std::string job_text_;
  JobSpec job_;
  SliceGrid grid_;
  std::optional<DataReport> data_;  // since the device has prepared it
  DeviceParameters device_;
  uint64_t last_ticket_ = 0;
  std::optional<Running> running_;

  // Of this membership.
  std::optional<Exchange> exchange_;
  std::optional<Plan> plan_;  // since the first Placement
  EvalWork eval_;
  Time next_data_report_;
  Time next_work_request_;
};

void WorkerRole::Machine::Step(Time now, Input input, Effects& effects) {
  if (session_.ended()) return;
  now_ = now;
  out_ = &effects;
  std::visit([this](auto& in) { On(in); }, input);
  if (session_.ended() || !session_.member()) return;
  if (!ready()) return ReportData();
  ReportDone();
  Advance();
}

void WorkerRole::Machine::On(Tick&) {
  session_.stats().waiting_for = WaitingFor();
  session_.Tick(now_, exchange_ ? exchange_->placement() : 0, *out_);
  if (session_.ended() || !ready()) return;
  exchange_->Tick(now_, *out_);
  eval_.Tick(now_, session_.timing().control_retry, MemberSession::kChief, *out_);
  if (now_ >= next_work_request_) AskForWork();
}

void WorkerRole::Machine::On(Received& received) {
  if (received.from == MemberSession::kChief) {
    switch (session_.Receive(now_, received.message, *out_)) {
      case MemberSession::News::kHandled:
        return;
      case MemberSession::News::kJoined:
        return OnJoined();
      case MemberSession::News::kDropped:
        return OnDropped();
      case MemberSession::News::kNotMine:
        break;
    }
    if (!session_.member()) return Reject();
    return std::visit([&](auto& message) { FromChief(message); }, received.message);
  }
  if (!ready()) return Reject();
  const absl::Status status = std::visit([&](auto& m) { return FromPs(received.from, m); }, received.message);
  if (!status.ok()) session_.End(1, std::string(status.message()), *out_);
}

// ---- Membership -----------------------------------------------------------------------------------------------------

void WorkerRole::Machine::OnJoined() {
  if (job_text_.empty()) {
    absl::StatusOr<JobSpec> job = ParseCanonicalJob(session_.job());
    absl::StatusOr<std::vector<VariableSpec>> variables =
        job.ok() ? InferVariables(job->model) : absl::StatusOr<std::vector<VariableSpec>>(job.status());
    if (!variables.ok()) {
      return session_.End(1, absl::StrCat("the chief's job is not understood here: ", variables.status().message()),
                          *out_);
    }
    job_text_ = session_.job();
    job_ = *std::move(job);
    grid_ = MakeSliceGrid(*std::move(variables));
    device_ = DeviceParameters(grid_.size());
    exchange_.emplace(&session_, &grid_, kFirstPs);
    Compute(Prepare{job_}, {});
  } else if (job_text_ != session_.job()) {
    return session_.End(1, "the chief now runs another job", *out_);
  }
  next_data_report_ = now_;
}

void WorkerRole::Machine::OnDropped() {
  exchange_->Clear(*out_);
  plan_.reset();
  eval_ = {};
}

void WorkerRole::Machine::ReportData() {
  if (!data_ || now_ < next_data_report_) return;
  data_->from = session_.incarnation();
  out_->SendTo(MemberSession::kChief, *data_);
  next_data_report_ = now_ + session_.timing().control_retry;
}

std::string WorkerRole::Machine::WaitingFor() const {
  if (!session_.member()) return "";
  if (!data_) return "its data to be indexed";
  if (!ready()) return "the placement of the parameters";
  if (running_) return "";
  if (exchange_->leases().empty()) return "work";
  return exchange_->fresh() ? "pushes to be acknowledged" : "parameters";
}

// ---- Work -----------------------------------------------------------------------------------------------------------

void WorkerRole::Machine::FromChief(Placement& placement) {
  if (!data_) return Reject();
  const absl::Status status = placement.train_examples == data_->train_examples
                                  ? exchange_->Place(placement, now_, *out_)
                                  : absl::InvalidArgumentError("it is for another data set");
  if (!status.ok()) {
    session_.Say(Severity::kWarning, absl::StrCat("a placement that cannot be: ", status.message()), *out_);
    return Reject();
  }
  if (plan_) return;
  plan_.emplace(job_, placement.train_examples);
  AskForWork();
}

void WorkerRole::Machine::AskForWork() {
  const std::vector<LeaseId> holding = Holding();
  if (holding.size() >= leases_held_) return;
  out_->SendTo(MemberSession::kChief, WorkRequest{.from = session_.incarnation(),
                                                  .holding = holding,
                                                  .wanted = static_cast<uint32_t>(leases_held_ - holding.size())});
  next_work_request_ = now_ + session_.timing().control_retry;
}

std::vector<LeaseId> WorkerRole::Machine::Holding() const {
  std::vector<LeaseId> holding;
  if (!exchange_) return holding;
  for (const HeldLease& lease : exchange_->leases()) holding.push_back(lease.id);
  return holding;
}

void WorkerRole::Machine::FromChief(Grant& grant) {
  if (grant.to != session_.incarnation() || !plan_ || !plan_->Contains(grant.lease)) return Reject();
  // One that does not fit comes again: the chief sees in the next request that it is not held.
  if (exchange_->Find(grant.lease) != nullptr || exchange_->leases().size() >= leases_held_) return;
  exchange_->Hold(grant.lease, plan_->StepsOf(grant.lease), now_, *out_);
}

void WorkerRole::Machine::ReportDone() {
  for (HeldLease& lease : exchange_->leases()) {
    if (!lease.progress.Done() || now_ < lease.next_report) continue;
    LeaseDone done{.from = session_.incarnation(),
                   .lease = lease.id,
                   .evidence = {},
                   .loss_sum = lease.loss_sum,
                   .examples = lease.examples};
    done.evidence.reserve(grid_.size());
    for (const Slice& slice : grid_.slices) done.evidence.push_back({slice.id, lease.progress.epoch(slice.id)});
    out_->SendTo(MemberSession::kChief, std::move(done));
    lease.next_report = now_ + session_.timing().control_retry;
  }
}

void WorkerRole::Machine::FromChief(LeaseDoneReply& reply) {
  HeldLease* lease = ready() ? exchange_->Find(reply.lease) : nullptr;
  if (lease == nullptr) return;  // doubled
  if (reply.committed) {
    exchange_->Release(reply.lease);
    return AskForWork();
  }
  // Some slice has a newer epoch. Its placement asks that slice at once; else all are asked, in good time.
  lease->progress.AskAgain();
  lease->next_probe = now_ + session_.timing().control_retry;
}

void WorkerRole::Machine::FromChief(EvalGrant& grant) {
  if (grant.to != session_.incarnation() || !ready()) return Reject();
  eval_.Grant(grant, exchange_->pulls_begun());
}

// ---- The device -----------------------------------------------------------------------------------------------------

void WorkerRole::Machine::Compute(ComputeRequest request, Running running) {
  running.ticket = Ticket{++last_ticket_};
  out_->Add(downpour::Compute{running.ticket, std::move(request)});
  running_ = std::move(running);
}

// Gives the device its next work, if it is free and the parameters for it are here.
void WorkerRole::Machine::Advance() {
  if (running_) return;
  if (eval_.NeedsParameters()) {
    if (!exchange_->fresh() || exchange_->pulls_begun() < eval_.needed_pull()) return exchange_->BeginPull(now_, *out_);
    eval_.Start(exchange_->Use());
  }
  if (eval_.HasWork()) {
    Running evaluating;
    evaluating.evaluates = true;
    return Compute(eval_.Next(device_), std::move(evaluating));
  }
  HeldLease* lease = LeaseToCompute();
  if (lease == nullptr) return;
  if (!exchange_->fresh()) return exchange_->BeginPull(now_, *out_);
  if (lease->progress.AllKnown() && lease->in_flight.step_count() < steps_in_flight_) Train(*lease);
}

// The first that is known and has a step to compute; else one that is still being asked, so that the parameters are
// pulled meanwhile.
HeldLease* WorkerRole::Machine::LeaseToCompute() {
  HeldLease* asked = nullptr;
  for (HeldLease& lease : exchange_->leases()) {
    if (lease.progress.Next() == 0) continue;
    if (lease.progress.AllKnown()) return &lease;
    if (asked == nullptr) asked = &lease;
  }
  return asked;
}

void WorkerRole::Machine::Train(HeldLease& lease) {
  const ParameterSet& parameters = exchange_->Use();
  Running training;
  training.lease = lease.id;
  training.step = lease.progress.Next();
  training.computed_from = parameters.versions;
  training.delivered.resize(grid_.size());
  Compute(TrainStep{lease.id, training.step, device_.Load(parameters)}, std::move(training));
}

void WorkerRole::Machine::On(ComputeDone& done) {
  if (!running_ || done.ticket != running_->ticket) return Reject();
  if (!done.status.ok() && !data_) {
    data_.emplace().error = std::string(done.status.message());
  } else if (!done.status.ok()) {
    return session_.End(1, absl::StrCat("the device failed: ", done.status.message()), *out_);
  }
  std::visit([this](auto& result) { Take(result); }, done.result);
  const auto* gradients = std::get_if<Gradients>(&done.result);
  if (gradients == nullptr || gradients->last) running_.reset();
}

void WorkerRole::Machine::Take(Prepared& prepared) {
  data_.emplace();
  data_->train_examples = prepared.train_examples;
  data_->eval_examples = prepared.eval_examples;
  data_->fingerprint = prepared.fingerprint;
}

void WorkerRole::Machine::Take(Gradients& gradients) {
  HeldLease* lease = ready() ? exchange_->Find(running_->lease) : nullptr;
  for (auto& [slice, gradient] : gradients.slices) {
    if (!grid_.Contains(slice) || gradient.size() != static_cast<size_t>(grid_.at(slice).bytes())) {
      return session_.End(
          1, absl::StrCat("the device computed ", gradient.size(), " bytes for slice ", ToNumber(slice)), *out_);
    }
    running_->delivered[ToNumber(slice)] = true;
    if (lease == nullptr) continue;
    exchange_->Keep(*lease, running_->step, slice, std::move(gradient), running_->computed_from[ToNumber(slice)]);
  }
  if (gradients.last) {
    ++session_.stats().steps;
    session_.stats().examples += gradients.examples;
    if (lease != nullptr) Conclude(*lease, gradients);
  }
  if (lease != nullptr) exchange_->Flush(now_, *out_);
}

// A step's end: a slice that got no gradient gets an empty push, so that every slice counts every step.
void WorkerRole::Machine::Conclude(HeldLease& lease, const Gradients& last) {
  for (const Slice& slice : grid_.slices) {
    if (running_->delivered[ToNumber(slice.id)]) continue;
    exchange_->Keep(lease, running_->step, slice.id, Payload(), running_->computed_from[ToNumber(slice.id)]);
  }
  if (running_->step <= lease.last_counted) return;  // computed again
  lease.last_counted = running_->step;
  lease.loss_sum += last.loss_sum;
  lease.examples += last.examples;
}

void WorkerRole::Machine::Take(Evaluated& evaluated) {
  if (!running_->evaluates || !eval_.Finish(evaluated, session_.incarnation(), now_)) return;
  eval_.Tick(now_, session_.timing().control_retry, MemberSession::kChief, *out_);
}

// ---- The role -------------------------------------------------------------------------------------------------------

WorkerRole::WorkerRole(WorkerOptions options) : machine_(std::make_unique<Machine>(std::move(options))) {}
WorkerRole::~WorkerRole() = default;

void WorkerRole::Step(Time now, Input input, Effects& effects) { machine_->Step(now, std::move(input), effects); }

Incarnation WorkerRole::incarnation() const { return machine_->session().incarnation(); }
std::vector<LeaseId> WorkerRole::holding() const { return machine_->Holding(); }
const TaskStats& WorkerRole::stats() const { return machine_->session().stats(); }

}  // namespace downpour
