#include "ps/apply.h"

#include <array>
#include <utility>

#include "ps/learning_rate.h"

namespace downpour {
namespace {

// Where an array's update goes: into the array itself if nobody else holds it.
Payload Target(const Payload& array) { return array.unique() ? Payload() : Payload::Allocate(array.size()); }

UpdatedArray Bind(Payload& array, Payload& target) {
  return {array.floats().data(), target.empty() ? array.mutable_floats().data() : target.mutable_floats().data()};
}

MomentumUpdate MomentumFor(const OptimizerSpec& spec, const Damping& damping, double rate) {
  const bool is_plain = damping.memory == 1;  // slowMomentum keeps what a stale push counts less out of the rate
  const double memory = is_plain ? spec.momentum : 1 - (1 - spec.momentum) / damping.memory;
  const double gain = is_plain ? 1 : damping.share / damping.memory;
  const double fresh = is_plain ? 0 : damping.fresh;
  const bool looks_ahead = spec.kind == OptimizerKind::kNesterov;
  return {.learning_rate = static_cast<float>(is_plain ? rate * damping.share : rate),
          .momentum = static_cast<float>(memory),
          .gain = static_cast<float>(gain),
          .fresh = static_cast<float>(looks_ahead ? gain + fresh : fresh),
          .carry = looks_ahead ? static_cast<float>(memory) : 1,
          .decay = static_cast<float>(spec.weight_decay)};
}

AdamUpdate AdamFor(const OptimizerSpec& spec, double rate, uint64_t version) {
  AdamUpdate update = MakeAdamUpdate(rate, spec.beta1, spec.beta2, spec.epsilon, version);
  const bool is_decoupled = spec.kind == OptimizerKind::kAdamW;
  (is_decoupled ? update.shrink : update.decay) =
      static_cast<float>(is_decoupled ? rate * spec.weight_decay : spec.weight_decay);
  return update;
}

}  // namespace

Update UpdateFor(const OptimizerSpec& spec, const Damping& damping, uint64_t version, double share) {
  const double scheduled = spec.learning_rate * share;
  const double rate = scheduled * damping.share;
  const auto decay = static_cast<float>(spec.weight_decay);
  switch (spec.kind) {
    case OptimizerKind::kSgd:
      return SgdUpdate{static_cast<float>(rate), decay};
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return MomentumFor(spec, damping, scheduled);
    case OptimizerKind::kAdagrad:
      return SquaresUpdate{.learning_rate = static_cast<float>(rate),
                           .start = static_cast<float>(spec.initial_accumulator),
                           .epsilon = static_cast<float>(spec.epsilon),
                           .decay = decay};
    case OptimizerKind::kRmsProp:
      return SquaresUpdate{.learning_rate = static_cast<float>(rate),
                           .keep = static_cast<float>(spec.alpha),
                           .gain = static_cast<float>(1 - spec.alpha),
                           .epsilon = static_cast<float>(spec.epsilon),
                           .decay = decay};
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return AdamFor(spec, rate, version);
    case OptimizerKind::kFtrl:
      return FtrlUpdate{.learning_rate = static_cast<float>(rate),
                        .beta = static_cast<float>(spec.beta),
                        .l1 = static_cast<float>(spec.learning_rate * spec.l1),
                        .l2 = static_cast<float>(spec.learning_rate * spec.l2),
                        .decay = decay};
  }
  return SgdUpdate{};
}

Optimizer::Optimizer(const TrainingSpec& training, const SliceGrid& grid, const Plan& plan)
    : job_steps_(plan.total_steps()), staleness_rule_(training) {
  for (const VariableSpec& variable : grid.variables) {
    // What is not trained is no parameter: its gradient is the change itself, whose sign alone differs.
    const OptimizerSpec sum = {.kind = OptimizerKind::kSgd, .learning_rate = 1};
    specs_.push_back(variable.trainable ? OfVariable(training.optimizer, variable.name) : sum);
  }
  for (const Slice& slice : grid.slices) variable_of_.push_back(slice.variable);
}

bool Optimizer::Apply(SliceId id, GradientSpan gradient, std::optional<uint64_t> staleness, ServedSlice& slice) const {
  const uint64_t usual = staleness ? UsualStaleness(slice.usual_staleness, *staleness) : slice.usual_staleness;
  if (!Step(id, gradient, staleness_rule_.Of(staleness.value_or(0), usual), slice)) return false;
  slice.usual_staleness = usual;
  return true;
}

bool Optimizer::Step(SliceId id, GradientSpan gradient, const Damping& damping, ServedSlice& slice) const {
  const OptimizerSpec& spec = specs_[variable_of_[ToNumber(id)]];
  std::array<Payload, kMostArrays> targets;
  std::array<UpdatedArray, kMostArrays> arrays;
  const size_t count = 1 + static_cast<size_t>(SlotCount(spec.kind));
  for (size_t i = 0; i < count; ++i) {
    Payload& array = i == 0 ? slice.values : slice.slots[i - 1];
    targets[i] = Target(array);
    arrays[i] = Bind(array, targets[i]);
  }
  const Update rule = UpdateFor(spec, damping, slice.version + 1, RateShare(spec.schedule, slice.consumed, job_steps_));
  if (!ApplyUpdate(rule, gradient, absl::MakeConstSpan(arrays.data(), count), &slice.bounds)) return false;
  for (size_t i = 0; i < count; ++i) {
    if (!targets[i].empty()) (i == 0 ? slice.values : slice.slots[i - 1]) = std::move(targets[i]);
  }
  slice.on_wire = Payload();
  ++slice.version;
  return true;
}

bool Optimizer::Gather(GradientSpan gradient, double share, ServedSlice& slice) const {
  Payload& sum = slice.slots.back();
  Payload target = Target(sum);
  const UpdatedArray array = Bind(sum, target);
  if (!ApplyUpdate(SgdUpdate{static_cast<float>(-share)}, gradient, {&array, 1})) return false;
  if (!target.empty()) sum = std::move(target);
  return true;
}

bool Optimizer::ApplyGathered(SliceId id, ServedSlice& slice) const {
  const Payload sum = std::exchange(slice.slots.back(), Payload::Zeros(slice.values.size()));
  return Step(id, sum.floats(), Damping(), slice);
}

}  // namespace downpour
