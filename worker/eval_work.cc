#include "worker/eval_work.h"

#include <algorithm>
#include <utility>

namespace downpour {

bool EvalWork::Knows(uint64_t first_batch) const {
  return (at_hand_ && at_hand_->first_batch == first_batch) ||
         std::any_of(waiting_.begin(), waiting_.end(), [&](const Part& p) { return p.first_batch == first_batch; }) ||
         std::any_of(reports_.begin(), reports_.end(),
                     [&](const Report& r) { return r.done.first_batch == first_batch; });
}

void EvalWork::Grant(const EvalGrant& grant, uint64_t pulls_begun) {
  if (grant.round < round_) return;
  if (grant.round > round_) {
    *this = EvalWork();
    round_ = grant.round;
    needed_pull_ = pulls_begun + 1;
  }
  if (!Knows(grant.first_batch)) waiting_.push_back({grant.first_batch, grant.batches});
}

void EvalWork::Start(ParameterSet parameters) { parameters_ = std::move(parameters); }

void EvalWork::TakeRows(const ParameterSet& pulled) {
  std::copy(pulled.values.begin() + static_cast<std::ptrdiff_t>(pulled.dense), pulled.values.end(),
            parameters_->values.begin() + static_cast<std::ptrdiff_t>(pulled.dense));
}

EvalStep EvalWork::Next(DeviceParameters& device, uint64_t most_batches) {
  if (!at_hand_) {
    at_hand_ = waiting_.front();
    waiting_.pop_front();
    computed_ = 0;
    sums_ = Evaluated();
  }
  asked_ = std::min(most_batches, at_hand_->batches - computed_);
  return {at_hand_->first_batch + computed_, asked_, device.Load(*parameters_)};
}

std::optional<EvalDone> EvalWork::Finish(const Evaluated& result, Incarnation from, Time next_report) {
  if (!at_hand_) return std::nullopt;
  computed_ += std::exchange(asked_, 0);
  sums_.Add(result);
  if (computed_ < at_hand_->batches) return std::nullopt;
  const VersionSummary versions = Summarize(*parameters_);
  const EvalDone done{.from = from,
                      .round = round_,
                      .first_batch = at_hand_->first_batch,
                      .batches = at_hand_->batches,
                      .loss_sum = sums_.loss_sum,
                      .correct = sums_.correct,
                      .examples = sums_.examples,
                      .versions_digest = versions.digest,
                      .oldest_version = versions.oldest,
                      .newest_version = versions.newest,
                      .metric_sums = sums_.metric_sums,
                      .weight = sums_.weight,
                      .right = sums_.right};
  at_hand_.reset();
  reports_.push_back({done, next_report});
  return done;
}

void EvalWork::Receive(const EvalDoneReply& reply) {
  std::erase_if(reports_, [&](const Report& r) {
    return r.done.round == reply.round && r.done.first_batch == reply.first_batch;
  });
}

void EvalWork::Tick(Time now, Duration retry, PeerId chief, Effects& effects) {
  for (Report& report : reports_) {
    if (now < report.next) continue;
    effects.SendTo(chief, report.done);
    report.next = now + retry;
  }
}

}  // namespace downpour
