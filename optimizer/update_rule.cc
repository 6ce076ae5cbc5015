#include "optimizer/update_rule.h"

#include <algorithm>
#include <cmath>

#include "optimizer/staleness_constants.h"

namespace downpour {
namespace {

MomentumUpdate MomentumFor(const OptimizerSpec& spec, const Damping& damping, double rate) {
  const bool is_plain = damping.memory == 1;  // else what a stale push counts less is kept out of the rate
  const double plain = 1 - spec.momentum;
  const double forgotten =
      std::min(plain, 1 / std::min(damping.memory, StalenessConstants::kLeastSpan)) / damping.memory;
  const double memory = is_plain ? spec.momentum : std::max(0.0, 1 - forgotten);
  const double gain = is_plain ? 1 : damping.share * forgotten / plain;
  const double fresh = is_plain ? 0 : damping.fresh / plain;
  const bool looks_ahead = spec.kind == OptimizerKind::kNesterov;
  return {.learning_rate = static_cast<float>(is_plain ? rate * damping.share : rate),
          .momentum = static_cast<float>(memory),
          .gain = static_cast<float>(gain),
          .fresh = static_cast<float>(looks_ahead ? gain + fresh : fresh),
          .carry = looks_ahead ? static_cast<float>(memory) : 1,
          .decay = static_cast<float>(spec.weight_decay)};
}

// What Adam's mean of gradients forgets with each update. It must forget faster than the root of v does, with room to
// spare: else the mean outlives its measure where gradients have become small, and steps grow without bound.
double ForgottenByAdam(const OptimizerSpec& spec, double memory) {
  const double plain = 1 - spec.beta1;
  return std::max(plain / memory, std::min(plain, 2 * (1 - std::sqrt(spec.beta2))));
}

// With a stretched memory the bias correction stays that of the plain one. So the first steps are small: their
// gradients all come from one place.
AdamUpdate AdamFor(const OptimizerSpec& spec, const Damping& damping, double rate, uint64_t version) {
  const bool is_plain = damping.memory == 1;
  const double damped = rate * damping.share;
  AdamUpdate update = MakeAdamUpdate(is_plain ? damped : rate, spec.beta1, spec.beta2, spec.epsilon, version);
  if (!is_plain) {
    const double forgotten = ForgottenByAdam(spec, damping.memory);
    update.beta1 = static_cast<float>(1 - forgotten);
    update.gain = static_cast<float>(forgotten * damping.share);
    update.fresh = static_cast<float>(damping.fresh * AdamCorrection(spec.beta1, version));  // it is no mean
  }
  const bool is_decoupled = spec.kind == OptimizerKind::kAdamW;
  (is_decoupled ? update.shrink : update.decay) =
      static_cast<float>(is_decoupled ? damped * spec.weight_decay : spec.weight_decay);
  return update;
}

static_assert(1 + kMostSlots == kMostArrays, "ApplyUpdate takes the values and every slot");

// The rule of that kind. With another number of slots than the kind's slices have it does not compile.
template <OptimizerKind kind, typename Rule>
Update RuleOf(const Rule& rule) {
  static_assert(Rule::kSlots == SlotCount(kind));
  return rule;
}

}  // namespace

std::vector<OptimizerSpec> SpecsOf(const std::vector<VariableSpec>& variables, const OptimizerSpec& optimizer) {
  const OptimizerSpec sum = {.kind = OptimizerKind::kSgd, .learning_rate = 1};
  std::vector<OptimizerSpec> specs;
  for (const VariableSpec& variable : variables) {
    specs.push_back(variable.trainable ? OfVariable(optimizer, variable.name) : sum);
  }
  return specs;
}

Update UpdateFor(const OptimizerSpec& spec, const Damping& damping, uint64_t version, double share) {
  const double scheduled = spec.learning_rate * share;
  // Of a rule without momentum memory is 1, but with local steps, where a difference counts 1/s (staleness_rule.h).
  const double rate = scheduled * (damping.memory == 1 ? damping.share : damping.memory);
  const auto decay = static_cast<float>(spec.weight_decay);
  switch (spec.kind) {
    case OptimizerKind::kSgd:
      return RuleOf<OptimizerKind::kSgd>(SgdUpdate{static_cast<float>(rate), decay});
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return RuleOf<OptimizerKind::kMomentum>(MomentumFor(spec, damping, scheduled));
    case OptimizerKind::kAdagrad:
      return RuleOf<OptimizerKind::kAdagrad>(SquaresUpdate{.learning_rate = static_cast<float>(rate),
                                                           .start = static_cast<float>(spec.initial_accumulator),
                                                           .epsilon = static_cast<float>(spec.epsilon),
                                                           .decay = decay});
    case OptimizerKind::kRmsProp:
      return RuleOf<OptimizerKind::kRmsProp>(SquaresUpdate{.learning_rate = static_cast<float>(rate),
                                                           .keep = static_cast<float>(spec.alpha),
                                                           .gain = static_cast<float>(1 - spec.alpha),
                                                           .epsilon = static_cast<float>(spec.epsilon),
                                                           .decay = decay});
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return RuleOf<OptimizerKind::kAdam>(AdamFor(spec, damping, scheduled, version));
    case OptimizerKind::kFtrl:
      return RuleOf<OptimizerKind::kFtrl>(FtrlUpdate{.learning_rate = static_cast<float>(rate),
                                                     .beta = static_cast<float>(spec.beta),
                                                     .l1 = static_cast<float>(spec.learning_rate * spec.l1),
                                                     .l2 = static_cast<float>(spec.learning_rate * spec.l2),
                                                     .decay = decay});
  }
  return SgdUpdate{};
}

}  // namespace downpour
