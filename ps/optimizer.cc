#include "ps/optimizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "optimizer/staleness_constants.h"
#include "runtime/learning_rate.h"

namespace downpour {
namespace {

// Where an array's update goes: into the array itself if nobody else holds it.
Payload Target(const Payload& array) { return array.unique() ? Payload() : Payload::Allocate(array.size()); }

// The same of values, which pulls refer to.
Payload TargetToSend(const Payload& values) {
  return values.unique() && values.is_placed_to_send() ? Payload() : Payload::AllocateToSend(values.size());
}

UpdatedArray Bind(Payload& array, Payload& target) {
  return {array.floats().data(), target.empty() ? array.mutable_floats().data() : target.mutable_floats().data()};
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

void CopyNumbers(GradientSpan from, float* to) {
  if (from.rounded()) return WidenBf16(from.halves(), to);
  std::copy(from.floats().begin(), from.floats().end(), to);
}

// Gives the rule what its step is to have less along its largest direction.
template <class Rule>
void LessenSteepest(const KeptShare& keep, const MatrixRun& run, GradientSpan gradient,
                    absl::Span<const UpdatedArray> arrays, Rule* rule, Deflation* deflation, absl::Span<float> step) {
  const auto compute = [&](size_t begin, absl::Span<float> part) {
    std::array<UpdatedArray, 1 + Rule::kSlots> from;
    std::transform(arrays.begin(), arrays.end(), from.begin(),
                   [begin](const UpdatedArray& array) { return array.From(begin); });
    FindStep(*rule, gradient.subspan(begin, part.size()), from, part.data());
  };
  rule->correction = deflation->Find(run, keep, compute, step);
}

}  // namespace

MatrixRun RunOf(const VariableSpec& variable, const Slice& slice) {
  const size_t columns = variable.trainable ? ColumnsOf(variable) : 1;
  return {.columns = columns, .lead = static_cast<size_t>(slice.offset) % columns};
}

bool HasDirections(const MatrixRun& run, size_t elements) {
  return std::min(run.columns, (run.lead + elements) / run.columns) >= StalenessConstants::kLeastDirections;
}

GradientSpan ShapeStep(const Damping& damping, const MatrixRun& run, GradientSpan gradient,
                       absl::Span<const UpdatedArray> arrays, Update* update, StepBuffers* buffers) {
  const bool raises = std::holds_alternative<SgdUpdate>(*update) && damping.beside != 1;
  if (damping.steep_least == 1 && !raises) return gradient;
  if (!HasDirections(run, gradient.size())) return gradient;
  // It only grows: what a vector gains by a resize is cleared, which would be a pass over memory.
  if (buffers->step.size() < gradient.size()) buffers->step.resize(gradient.size());
  const auto step = absl::MakeSpan(buffers->step.data(), gradient.size());
  if (raises) {
    CopyNumbers(gradient, step.data());
    ScaleRemainder(run, StalenessConstants::kSteepDirections, static_cast<float>(damping.beside), step);
    return absl::Span<const float>(step);
  }
  const KeptShare keep = {static_cast<float>(damping.steep_least), static_cast<float>(damping.steep_most)};
  const auto lessen = [&](auto& rule) {
    LessenSteepest(keep, run, gradient, arrays, &rule, &buffers->deflation, step);
  };
  std::visit(lessen, *update);
  return gradient;
}

Optimizer::Optimizer(const JobSpec& job, const SliceGrid& grid, const Plan& plan)
    : specs_(SpecsOf(grid.variables, job.training.servers_optimizer())),
      job_steps_(plan.total_steps()),
      staleness_rule_(job.training, job.cluster.worker_count) {
  for (const ModelTable& table : job.model.tables) of_tables_.push_back(table.optimizer);
  for (const Slice& slice : absl::MakeConstSpan(grid.slices).first(grid.dense())) {
    const VariableSpec& variable = grid.variables[slice.variable];
    variable_of_.push_back(slice.variable);
    run_of_.push_back(RunOf(variable, slice));
    traits_.push_back({.is_trained = variable.trainable,
                       .has_directions = HasDirections(run_of_.back(), static_cast<size_t>(slice.elements)),
                       .rates_fall = RatesFall(specs_[slice.variable].kind)});
  }
}

bool Optimizer::Apply(SliceId id, GradientSpan gradient, std::optional<uint64_t> staleness, SliceEnvelope& slice,
                      DenseValues& dense) const {
  const uint64_t usual = staleness_rule_.UsualAfter({slice.version, slice.usual_staleness}, staleness);
  const Damping damping = staleness_rule_.Of(staleness.value_or(0), usual, traits_[ToNumber(id)]);
  if (!Step(id, gradient, damping, slice, dense)) return false;
  slice.usual_staleness = usual;
  return true;
}

bool Optimizer::Step(SliceId id, GradientSpan gradient, const Damping& damping, SliceEnvelope& slice,
                     DenseValues& dense) const {
  const OptimizerSpec& spec = SpecOf(id);
  std::array<Payload, kMostArrays> targets;
  std::array<UpdatedArray, kMostArrays> arrays;
  const size_t count = 1 + static_cast<size_t>(SlotCount(spec.kind));
  for (size_t i = 0; i < count; ++i) {
    Payload& array = i == 0 ? dense.values : dense.slots[i - 1];
    targets[i] = i == 0 ? TargetToSend(array) : Target(array);
    arrays[i] = Bind(array, targets[i]);
  }
  Update rule = UpdateFor(spec, damping, slice.version + 1, RateShare(spec.schedule, slice.consumed, job_steps_));
  const auto bound = absl::MakeConstSpan(arrays.data(), count);
  const GradientSpan shaped = ShapeStep(damping, run_of_[ToNumber(id)], gradient, bound, &rule, &buffers_);
  if (!ApplyUpdate(rule, shaped, bound, &dense.bounds)) return false;
  for (size_t i = 0; i < count; ++i) {
    if (!targets[i].empty()) (i == 0 ? dense.values : dense.slots[i - 1]) = std::move(targets[i]);
  }
  ++slice.version;
  return true;
}

bool Optimizer::ApplyRows(const RowGradients& gradients, SliceEnvelope& slice, BucketRows& rows) const {
  updates_.clear();
  for (const OptimizerSpec& spec : of_tables_) {
    const double share = RateShare(spec.schedule, slice.consumed, job_steps_);
    updates_.push_back(UpdateFor(spec, Damping(), slice.version + 1, share));
  }
  if (!rows.Apply(gradients, updates_)) return false;
  ++slice.version;
  return true;
}

bool Optimizer::Gather(GradientSpan gradient, double share, DenseValues& dense) const {
  Payload& sum = dense.slots.back();
  Payload target = Target(sum);
  const UpdatedArray array = Bind(sum, target);
  if (!ApplyUpdate(SgdUpdate{static_cast<float>(-share)}, gradient, {&array, 1})) return false;
  if (!target.empty()) sum = std::move(target);
  return true;
}

bool Optimizer::ApplyGathered(SliceId id, SliceEnvelope& slice, DenseValues& dense) const {
  const Payload sum = std::exchange(dense.slots.back(), Payload::Zeros(dense.values.size()));
  return Step(id, sum.floats(), Damping(), slice, dense);
}

}  // namespace downpour
