#include "ps/apply.h"

#include <array>
#include <utility>

namespace downpour {
namespace {

// Where an array's update goes: into the array itself if nobody else holds it.
Payload Target(const Payload& array) { return array.unique() ? Payload() : Payload::Allocate(array.size()); }

UpdatedArray Bind(Payload& array, Payload& target) {
  return {array.floats().data(), target.empty() ? array.mutable_floats().data() : target.mutable_floats().data()};
}

}  // namespace

Update UpdateFor(const OptimizerSpec& spec, const Damping& damping, uint64_t version) {
  const double rate = spec.learning_rate * damping.share;
  switch (spec.kind) {
    case OptimizerKind::kMomentum:
      if (damping.memory == 1) return MomentumUpdate{static_cast<float>(rate), static_cast<float>(spec.momentum)};
      return MomentumUpdate{.learning_rate = static_cast<float>(spec.learning_rate),
                            .momentum = static_cast<float>(1 - (1 - spec.momentum) / damping.memory),
                            .gain = static_cast<float>(damping.share / damping.memory),
                            .fresh = static_cast<float>(damping.fresh)};
    case OptimizerKind::kAdam:
      return MakeAdamUpdate(rate, spec.beta1, spec.beta2, spec.epsilon, version);
    case OptimizerKind::kSgd:
      break;
  }
  return SgdUpdate{static_cast<float>(rate)};
}

bool Optimizer::Apply(GradientSpan gradient, std::optional<uint64_t> staleness, ServedSlice& slice) const {
  const uint64_t usual = staleness ? UsualStaleness(slice.usual_staleness, *staleness) : slice.usual_staleness;
  if (!Step(gradient, staleness_rule_.Of(staleness.value_or(0), usual), slice)) return false;
  slice.usual_staleness = usual;
  return true;
}

bool Optimizer::Step(GradientSpan gradient, const Damping& damping, ServedSlice& slice) const {
  std::array<Payload, kMostArrays> targets;
  std::array<UpdatedArray, kMostArrays> arrays;
  const size_t count = 1 + static_cast<size_t>(SlotCount(spec_.kind));
  for (size_t i = 0; i < count; ++i) {
    Payload& array = i == 0 ? slice.values : slice.slots[i - 1];
    targets[i] = Target(array);
    arrays[i] = Bind(array, targets[i]);
  }
  const Update rule = UpdateFor(spec_, damping, slice.version + 1);
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

bool Optimizer::ApplyGathered(ServedSlice& slice) const {
  const Payload sum = std::exchange(slice.slots.back(), Payload::Zeros(slice.values.size()));
  return Step(sum.floats(), Damping(), slice);
}

}  // namespace downpour
