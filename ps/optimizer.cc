#include "ps/optimizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/learning_rate.h"

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

static_assert(1 + kMostSlots == kMostArrays, "ApplyUpdate takes the values and every slot");

// The rule of that kind. With another number of slots than the kind's slices have it does not compile.
template <OptimizerKind kind, typename Rule>
Update RuleOf(const Rule& rule) {
  static_assert(Rule::kSlots == SlotCount(kind));
  return rule;
}

// The most square matrix that the variable's dimensions make, in their order. With dimensions of inputs on one side and
// of outputs on the other it is the matrix that multiplies, whichever side they are on.
size_t ColumnsOf(const VariableSpec& variable) {
  const int64_t elements = variable.elements();
  int64_t columns = 1, best = 1;
  for (size_t i = variable.shape.size(); i-- > 0;) {
    columns *= variable.shape[i];
    if (std::min(columns, elements / columns) > std::min(best, elements / best)) best = columns;
  }
  return static_cast<size_t>(best);
}

// Of fewer rows or columns the part along one direction is most of the step.
constexpr size_t kLeastDirections = 8;

}  // namespace

MatrixRun RunOf(const VariableSpec& variable, const Slice& slice) {
  const size_t columns = ColumnsOf(variable);
  return {.columns = columns, .lead = static_cast<size_t>(slice.offset) % columns};
}

void Lessen(const Damping& damping, const MatrixRun& run, GradientSpan gradient, absl::Span<const UpdatedArray> arrays,
            Update* update, std::vector<float>* step) {
  auto* momentum = std::get_if<MomentumUpdate>(update);
  if (momentum == nullptr || damping.steep == 1) return;
  if (std::min(run.columns, (run.lead + gradient.size()) / run.columns) < kLeastDirections) return;
  step->resize(gradient.size());
  FindStep(*momentum, gradient, arrays, step->data());
  Deflate(run, static_cast<float>(damping.steep), absl::MakeSpan(*step));
  momentum->step = step->data();
  momentum->most_step = LargestMagnitude(absl::MakeConstSpan(*step));
}

Update UpdateFor(const OptimizerSpec& spec, const Damping& damping, uint64_t version, double share) {
  const double scheduled = spec.learning_rate * share;
  const double rate =
      scheduled * (damping.memory == 1 ? damping.share : 1 / damping.memory);  // where none is remembered
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
      return RuleOf<OptimizerKind::kAdam>(AdamFor(spec, rate, version));
    case OptimizerKind::kFtrl:
      return RuleOf<OptimizerKind::kFtrl>(FtrlUpdate{.learning_rate = static_cast<float>(rate),
                                                     .beta = static_cast<float>(spec.beta),
                                                     .l1 = static_cast<float>(spec.learning_rate * spec.l1),
                                                     .l2 = static_cast<float>(spec.learning_rate * spec.l2),
                                                     .decay = decay});
  }
  return SgdUpdate{};
}

Optimizer::Optimizer(const JobSpec& job, const SliceGrid& grid, const Plan& plan)
    : job_steps_(plan.total_steps()), staleness_rule_(job.training, job.cluster.worker_count) {
  for (const VariableSpec& variable : grid.variables) {
    // What is not trained is no parameter: its gradient is the change itself, whose sign alone differs.
    const OptimizerSpec sum = {.kind = OptimizerKind::kSgd, .learning_rate = 1};
    specs_.push_back(variable.trainable ? OfVariable(job.training.optimizer, variable.name) : sum);
  }
  for (const Slice& slice : grid.slices) {
    variable_of_.push_back(slice.variable);
    run_of_.push_back(RunOf(grid.variables[slice.variable], slice));
  }
}

bool Optimizer::Apply(SliceId id, GradientSpan gradient, std::optional<uint64_t> staleness, ServedSlice& slice) const {
  const uint64_t usual = staleness_rule_.UsualAfter({slice.version, slice.usual_staleness}, staleness);
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
  Update rule = UpdateFor(spec, damping, slice.version + 1, RateShare(spec.schedule, slice.consumed, job_steps_));
  const auto bound = absl::MakeConstSpan(arrays.data(), count);
  Lessen(damping, run_of_[ToNumber(id)], gradient, bound, &rule, &step_);
  if (!ApplyUpdate(rule, gradient, bound, &slice.bounds)) return false;
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
