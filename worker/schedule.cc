#include "worker/schedule.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "runtime/row_frames.h"
#include "schema/limits.h"

namespace downpour {

void Schedule::Advance(Time now, Effects& effects) {
  if (pulling_since_ && exchange_.fresh()) pulls_.Add(now - *std::exchange(pulling_since_, std::nullopt));
  if (waits_for_rows()) BringRows(now, effects);
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
  if (eval_.HasWork()) return BeginEvaluation(now, effects);
  HeldLease* lease = LeaseToCompute();
  if (lease == nullptr) {
    needed_pull_ = exchange_.pulls_begun() + 1;
    return;
  }
  const bool is_known = lease->progress.AllKnown();
  const RowsFor rows = {.lease = lease->id, .step = lease->progress.Next()};
  if (grid_.buckets > 0 && (!is_known || !HasRowsFor(rows, now, effects))) return;
  if (!exchange_.fresh() || exchange_.pulls_begun() < needed_pull_) return Pull(now, effects);
  if (is_known && lease->in_flight.step_count() < steps_in_flight_) Train(*lease, now, effects);
}

void Schedule::BeginEvaluation(Time now, Effects& effects) {
  needed_pull_ = exchange_.pulls_begun() + 1;
  const bool has_tables = grid_.buckets > 0;
  if (has_tables) {
    if (!HasRowsFor({.evaluates = true, .batch = eval_.next_batch()}, now, effects)) return;
    // The variables are those with which the evaluation began.
    if (!exchange_.has_rows()) return exchange_.BeginPull(now, effects, PullRound::Of::kRows);
    eval_.TakeRows(exchange_.TakePulled());
    rows_for_.reset();
  }
  Running evaluating;
  evaluating.evaluates = true;
  Begin(eval_.Next(device_, has_tables ? 1 : UINT64_MAX), std::move(evaluating), now, effects);
}

// Whether the pulls from now on bring the rows that this needs. If not, the device is asked for the keys.
bool Schedule::HasRowsFor(const RowsFor& wanted, Time now, Effects& effects) {
  const bool is_found = rows_for_ == wanted;
  if (is_found && !found_) return true;
  if (exchange_.pulling()) return false;  // rows of something else, or of a placement that is over
  if (is_found) {
    exchange_.Want(*std::exchange(found_, std::nullopt));
    needed_pull_ = exchange_.pulls_begun() + 1;
    return true;
  }
  rows_for_ = wanted;
  found_.reset();
  FindKeys find;
  if (wanted.evaluates) {
    find.first_batch = wanted.batch;
    find.batches = 1;
  } else {
    find.step = std::pair(wanted.lease, wanted.step);
  }
  Running finding;
  finding.finds = true;
  finding.evaluates = wanted.evaluates;
  finding.lease = wanted.lease;
  finding.step = wanted.step;
  Begin(find, std::move(finding), now, effects);
  return false;
}

// Rows are of later pulls than the variables of the same step, which stay as they were loaded. For a lease that is not
// held any more nothing is pulled.
void Schedule::BringRows(Time now, Effects& effects) {
  if (!running_->evaluates && LeaseOfRunning() == nullptr) return LetGo(effects);
  if (found_) {
    if (exchange_.pulling()) return;
    exchange_.Want(*std::exchange(found_, std::nullopt));
  }
  if (!exchange_.has_rows()) return exchange_.BeginPull(now, effects, PullRound::Of::kRows);
  const ParameterSet& pulled = exchange_.TakePulled();
  MoreRows more{.rows = RowsOf(pulled)};
  running_->has_asked.resize(grid_.size());
  for (const auto& [bucket, rows] : running_->evaluates ? SliceValues() : more.rows) {
    const size_t slice = ToNumber(bucket);
    if (!running_->has_asked[slice]) running_->computed_from[slice] = pulled.versions[slice];
    running_->has_asked[slice] = true;
  }
  GoOn(std::move(more), effects);
}

void Schedule::LetGo(Effects& effects) {
  if (!waits_for_rows()) return;
  running_->in_vain = true;
  found_.reset();
  GoOn({.rows = {}, .in_vain = true}, effects);
}

void Schedule::GoOn(MoreRows more, Effects& effects) {
  running_->waits = false;
  running_->ticket = Ticket{next_ticket_++};
  effects.Add(Compute{running_->ticket, std::move(more)});
}

// Null: nobody takes its gradients.
HeldLease* Schedule::LeaseOfRunning() { return running_->in_vain ? nullptr : exchange_.Find(running_->lease); }

void Schedule::Pull(Time now, Effects& effects) {
  if (!pulling_since_) pulling_since_ = now;
  exchange_.BeginPull(now, effects);
}

void Schedule::PullAhead(Time now, Effects& effects) {
  if (!pull_ahead_ || running_->evaluates || running_->finds || exchange_.fresh() || now < running_->pull_at) return;
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

std::optional<LeaseId> Schedule::LeaseBehind(const HeldLease& lease) {
  for (const HeldLease& held : exchange_.leases()) {
    if (held.id > lease.id && !held.progress.Done()) return held.id;
  }
  return std::nullopt;
}

void Schedule::Train(HeldLease& lease, Time now, Effects& effects) {
  const ParameterSet& parameters = exchange_.TakePulled();
  rows_for_.reset();
  Running training;
  training.lease = lease.id;
  training.step = lease.progress.Next();
  training.computed_from = parameters.versions;
  training.delivered.resize(grid_.size());
  PlanPull(now, training, effects);
  TrainStep request{.lease = lease.id,
                    .step = training.step,
                    .updates = device_.Load(parameters),
                    .next = StepAfter(lease, training.step),
                    .settled = exchange_.TakeSettled(),
                    .lease_behind = LeaseBehind(lease)};
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
  if (idle() || running_->waits || now - running_->began < std::max(patience, 10 * longest_)) return "";
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
  if (auto* found = std::get_if<KeysFound>(&done.result)) {
    if (absl::Status received = Receive(*found); !received.ok()) return received;
    if (running_->finds) {
      End(now);
    } else if (running_->forgotten) {
      found_.reset();
      running_.reset();
    } else {
      running_->waits = true;
    }
    return absl::OkStatus();
  }
  auto* const gradients = std::get_if<Gradients>(&done.result);
  if (gradients != nullptr && !running_->evaluates && !running_->finds) {
    absl::Status received = Receive(*gradients, now, effects);
    if (gradients->last) {
      steps_.Add(now - running_->began);
      End(now);
    }
    return received;
  }
  const auto* evaluated = std::get_if<Evaluated>(&done.result);
  if (evaluated == nullptr || !running_->evaluates || running_->finds) {
    return absl::InternalError("the device answered another question than it was asked");
  }
  if (!running_->in_vain) eval_.Finish(*evaluated, session_.incarnation(), now);
  End(now);
  Tick(now, effects);
  return absl::OkStatus();
}

absl::Status Schedule::Receive(KeysFound& found) {
  for (const auto& [bucket, keys] : found.keys) {
    if (!grid_.Contains(bucket) || !grid_.IsBucket(bucket) || !CheckKeys(keys, grid_.row_widths).ok()) {
      return absl::InternalError(absl::StrCat("the device found keys of slice ", ToNumber(bucket)));
    }
    const size_t bytes = keys.size() + AnswerBytes(keys, grid_.row_widths);
    if (absl::Status status = CheckRowsOfBucket(bytes); !status.ok()) return status;
  }
  // Else the device was prepared anew meanwhile.
  if (rows_for_ || !running_->finds) found_ = std::move(found.keys);
  return absl::OkStatus();
}

absl::Status Schedule::Receive(Gradients& gradients, Time now, Effects& effects) {
  HeldLease* lease = LeaseOfRunning();
  for (auto& [slice, gradient] : gradients.slices) {
    if (!grid_.Contains(slice) || !Fits(slice, gradient)) {
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
    input_.Add(gradients.reading, now);
    if (lease != nullptr) Conclude(*lease, gradients);
  }
  if (lease != nullptr) exchange_.Flush(now, effects);
  return absl::OkStatus();
}

// Whether it is a gradient of that slice.
bool Schedule::Fits(SliceId slice, const Payload& gradient) const {
  if (!grid_.IsBucket(slice)) return gradient.size() == grid_.WireBytes(slice);
  return gradient.size() <= kMaxFrameBytes && CheckGradients(gradient, grid_.row_widths).ok();
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
  lease.weight += last.weight;
}

void Schedule::Tick(Time now, Effects& effects) {
  eval_.Tick(now, session_.timing().control_retry, MemberSession::kChief, effects);
}

}  // namespace downpour
