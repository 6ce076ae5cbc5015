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

Update Optimizer::RuleFor(uint64_t version) const {
  switch (spec_.kind) {
    case OptimizerKind::kMomentum:
      return MomentumUpdate{static_cast<float>(spec_.learning_rate), static_cast<float>(spec_.momentum)};
    case OptimizerKind::kAdam:
      return MakeAdamUpdate(spec_.learning_rate, spec_.beta1, spec_.beta2, spec_.epsilon, version);
    case OptimizerKind::kSgd:
      break;
  }
  return SgdUpdate{static_cast<float>(spec_.learning_rate)};
}

bool Optimizer::Apply(GradientSpan gradient, ServedSlice& slice) const {
  std::array<Payload, kMostArrays> targets;
  std::array<UpdatedArray, kMostArrays> arrays;
  const size_t count = 1 + slice.slots.size();
  for (size_t i = 0; i < count; ++i) {
    Payload& array = i == 0 ? slice.values : slice.slots[i - 1];
    targets[i] = Target(array);
    arrays[i] = Bind(array, targets[i]);
  }
  const Update rule = RuleFor(slice.version + 1);
  if (!ApplyUpdate(rule, gradient, absl::MakeConstSpan(arrays.data(), count), &slice.bounds)) return false;
  for (size_t i = 0; i < count; ++i) {
    if (!targets[i].empty()) (i == 0 ? slice.values : slice.slots[i - 1]) = std::move(targets[i]);
  }
  slice.on_wire = Payload();
  ++slice.version;
  return true;
}

}  // namespace downpour
