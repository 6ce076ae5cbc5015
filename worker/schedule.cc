#include "worker/schedule.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace downpour {

void Schedule::Advance(Time now, Effects& effects) {
  if (pulling_since_ && exchange_.fresh()) pulls_.Add(now - *std::exchange(pulling_since_, std::nullopt));
  if (idle()) BeginNext(now, effects);
  if (!idle()) PullAhead(now, effects);
}

// What was pulled for a step grows stale while something else is done, or nothing: then it is pulled again.
void Schedule::BeginNext(Time now, Effects& effects) {
  if (eval_.NeedsParameters()) {
    if (!exchange_.fresh() || exchange_.pulls_begun() < eval_.needed_pull()) {
      Pull(now, effects);
      needed_pull_ = exchange_.pulls_begun() + 1;  // also where a later chief has it drop the evaluation
      return;
    }
    eval_.Start(exchange_.TakePulled());
  }
  if (eval_.HasWork()) {
    needed_pull_ = exchange_.pulls_begun() + 1;
    Running evaluating;
    evaluating.evaluates = true;
    return Begin(eval_.Next(device_), std::move(evaluating), now, effects);
  }
  HeldLease* lease = LeaseToCompute();
  if (lease == nullptr) {
    needed_pull_ = exchange_.pulls_begun() + 1;
    return;
  }
  if (!exchange_.fresh() || exchange_.pulls_begun() < needed_pull_) return Pull(now, effects);
  if (lease->progress.AllKnown() && lease->in_flight.step_count() < steps_in_flight_) Train(*lease, now, effects);
}

void Schedule::Pull(Time now, Effects& effects) {
  if (!pulling_since_) pulling_since_ = now;
  exchange_.BeginPull(now, effects);
}

void Schedule::PullAhead(Time now, Effects& effects) {
  if (!pull_ahead_ || running_->evaluates || exchange_.fresh() || now < running_->pull_at) return;
  const HeldLease* lease = exchange_.Find(running_->lease);
  if (lease != nullptr && StepAfter(*lease, running_->step)) Pull(now, effects);
}

// As late as the parameters can be expected to be there when the step ends: what is pulled sooner is staler. A quarter
// is for a pull that takes longer.
void Schedule::PlanPull(Time now, Running& training, Effects& effects) {
  const Duration wait = std::max(Duration::zero(), steps_.longer() - pulls_.longer() * 5 / 4);
  training.pull_at = now + wait;
  if (pull_ahead_ && wait > Duration::zero()) effects.Add(Wake{wait});
}

// The first that is known and has a step to compute; else one that is still being asked, so that the parameters are
// pulled meanwhile.
HeldLease* Schedule::LeaseToCompute() {
  HeldLease* asked = nullptr;
  for (HeldLease& lease : exchange_.leases()) {
    if (lease.progress.Next() == 0) continue;
    if (lease.progress.AllKnown()) return &lease;
    if (asked == nullptr) asked = &lease;
  }
  return asked;
}

// If nothing new is heard until that step is computed.
std::optional<std::pair<LeaseId, Step>> Schedule::StepAfter(const HeldLease& lease, Step step) {
  for (const HeldLease& held : exchange_.leases()) {
    if (!held.progress.AllKnown()) continue;
    const Step last = held.progress.steps();
    const Step next = held.id != lease.id ? held.progress.Next() : step < last ? step + 1 : 0;
    if (next != 0) return std::pair(held.id, next);
  }
  return std::nullopt;
}

void Schedule::Train(HeldLease& lease, Time now, Effects& effects) {
  const ParameterSet& parameters = exchange_.TakePulled();
  Running training;
  training.lease = lease.id;
  training.step = lease.progress.Next();
  training.computed_from = parameters.versions;
  training.delivered.resize(grid_.size());
  PlanPull(now, training, effects);
  TrainStep request{lease.id, training.step, device_.Load(parameters), StepAfter(lease, training.step),
                    exchange_.TakeSettled()};
  Begin(std::move(request), std::move(training), now, effects);
}

template <typename Request>
void Schedule::Begin(Request request, Running running, Time now, Effects& effects) {
  running.ticket = Ticket{next_ticket_++};
  running.began = now;
  effects.Add(Compute{running.ticket, std::move(request)});
  running_ = std::move(running);
}

void Schedule::End(Time now) {
  longest_ = std::max(longest_, now - running_->began);
  running_.reset();
}

std::string Schedule::Late(Time now, Duration patience) const {
  if (idle() || now - running_->began < std::max(patience, 10 * longest_)) return "";
  if (running_->evaluates) return "an evaluation";
  return absl::StrCat("step ", running_->step, " of lease ", ToNumber(running_->lease));
}

absl::Status Schedule::Receive(ComputeDone& done, Time now, Effects& effects) {
  if (idle() || done.ticket != running_->ticket) return absl::OkStatus();
  if (!done.status.ok()) {
    // By the user's own code, which it names.
    if (absl::IsAborted(done.status) || absl::IsCancelled(done.status)) return done.status;
    // Of a child process, which it names, or of a device.
    const char* whose = absl::IsUnavailable(done.status) ? "" : "the device failed: ";
    return absl::InternalError(absl::StrCat(whose, done.status.message()));
  }
  if (auto* gradients = std::get_if<Gradients>(&done.result); gradients != nullptr && !running_->evaluates) {
    absl::Status received = Receive(*gradients, now, effects);
    if (gradients->last) {
      steps_.Add(now - running_->began);
      End(now);
    }
    return received;
  }
  const auto* evaluated = std::get_if<Evaluated>(&done.result);
  if (evaluated == nullptr || !running_->evaluates) {
    return absl::InternalError("the device answered another question than it was asked");
  }
  eval_.Finish(*evaluated, session_.incarnation(), now);
  End(now);
  Tick(now, effects);
  return absl::OkStatus();
}

absl::Status Schedule::Receive(Gradients& gradients, Time now, Effects& effects) {
  HeldLease* lease = exchange_.Find(running_->lease);
  for (auto& [slice, gradient] : gradients.slices) {
    if (!grid_.Contains(slice) || gradient.size() != grid_.WireBytes(slice)) {
      return absl::InternalError(
          absl::StrCat("the device computed ", gradient.size(), " bytes for slice ", ToNumber(slice)));
    }
    running_->delivered[ToNumber(slice)] = true;
    if (lease == nullptr) {
      exchange_.Forgo(running_->lease, running_->step, slice);
    } else {
      exchange_.Retain(*lease, running_->step, slice, std::move(gradient), running_->computed_from[ToNumber(slice)]);
    }
  }
  if (gradients.last) {
    ++session_.stats().steps;
    session_.stats().examples += gradients.examples;
    if (lease != nullptr) Conclude(*lease, gradients);
  }
  if (lease != nullptr) exchange_.Flush(now, effects);
  return absl::OkStatus();
}

// A step's end. A slice that got no gradient gets an empty push, so that every slice counts every step; one that got it
// and lost it since is computed again.
void Schedule::Conclude(HeldLease& lease, const Gradients& last) {
  for (const Slice& slice : grid_.slices) {
    if (running_->delivered[ToNumber(slice.id)]) continue;
    exchange_.Retain(lease, running_->step, slice.id, Payload(), running_->computed_from[ToNumber(slice.id)]);
  }
  if (running_->step <= lease.last_counted) return;  // computed again
  lease.last_counted = running_->step;
  lease.loss_sum += last.loss_sum;
  lease.examples += last.examples;
}

void Schedule::Tick(Time now, Effects& effects) {
  eval_.Tick(now, session_.timing().control_retry, MemberSession::kChief, effects);
}

}  // namespace downpour
