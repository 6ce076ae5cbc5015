#include "worker/model/local_steps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "optimizer/update_rule.h"
#include "runtime/learning_rate.h"

namespace downpour {

LocalSteps::LocalSteps(const JobSpec& job, const SliceGrid* grid, const Plan& plan)
    : grid_(grid),
      plan_(plan),
      clip_(job.training.optimizer),
      schedule_(job.training.optimizer.schedule),
      specs_(SpecsOf(grid->variables, job.training.optimizer)),
      bounds_(grid->variables.size()) {
  settled_.slots.resize(static_cast<size_t>(SlotCount(job.training.optimizer.kind)));
  for (size_t v = 0; v < grid->variables.size(); ++v) {
    const auto elements = static_cast<size_t>(grid->variables[v].elements());
    pulled_.emplace_back(elements);
    const bool has_slots = SlotCount(specs_[v].kind) > 0;
    for (Floats& slot : settled_.slots) slot.emplace_back(has_slots ? elements : 0);
  }
  values_ = pulled_;
}

void LocalSteps::Set(SliceId id, const Payload& values) {
  const Slice& slice = grid_->at(id);
  float* to = pulled_[slice.variable].data() + slice.offset;
  if (grid_->wire == WireFormat::kBf16) {
    WidenBf16(values.as<Bf16>(), to);
  } else {
    std::memcpy(to, values.data(), values.size());
  }
}

std::vector<LocalSteps::Candidate>::iterator LocalSteps::Find(LeaseId lease, Step step) {
  return std::find_if(candidates_.begin(), candidates_.end(),
                      [&](const Candidate& c) { return c.lease == lease && c.step == step; });
}

// What came of a step tells of those before it too: the slices take steps one after the other.
void LocalSteps::Settle(const StepOutcome& outcome) {
  const auto found = Find(outcome.lease, outcome.step);
  if (found == candidates_.end()) return;
  if (!outcome.counted) {
    candidates_.erase(found, candidates_.end());
    return;
  }
  settled_ = std::move(found->memory);
  candidates_.erase(candidates_.begin(), found + 1);
}

void LocalSteps::Begin(const TrainStep& request) {
  for (const StepOutcome& outcome : request.outcomes) Settle(outcome);
  candidates_.erase(Find(request.lease, request.step), candidates_.end());  // it is computed again
  lease_ = request.lease;
  step_ = request.step;
  batch_ = plan_.BatchesBefore(request.lease, request.step);
  finite_ = true;
  memory_ = candidates_.empty() ? settled_ : candidates_.back().memory;
  values_ = pulled_;
  std::fill(bounds_.begin(), bounds_.end(), kUnknownMagnitudes);
  FitSums();
}

// FTRL: w = (sign(z) l1 - z) / (beta + sqrt(n) + l2) where |z| is above l1, else 0 (FtrlUpdate).
void LocalSteps::FitSums() {
  for (size_t v = 0; v < specs_.size(); ++v) {
    if (specs_[v].kind != OptimizerKind::kFtrl) continue;
    const auto rule = std::get<FtrlUpdate>(UpdateFor(specs_[v], Damping(), 1, 1));
    std::vector<float>& z = memory_.slots[0][v];
    const std::vector<float>& n = memory_.slots[1][v];
    for (size_t i = 0; i < z.size(); ++i) {
      const float w = values_[v][i];
      const float below = (rule.beta + std::sqrt(n[i])) + rule.l2;
      z[i] = w == 0 ? std::clamp(z[i], -rule.l1, rule.l1) : -(w * below + std::copysign(rule.l1, w));
    }
  }
}

void LocalSteps::Take(VariableGradients gradients) {
  const double share = RateShare(schedule_, batch_++, plan_.total_batches());
  if (!finite_) return;
  const auto others = std::stable_partition(gradients.begin(), gradients.end(), [this](const auto& gradient) {
    return grid_->variables[gradient.first].trainable;
  });
  VariableGradients statistics(std::make_move_iterator(others), std::make_move_iterator(gradients.end()));
  gradients.erase(others, gradients.end());
  clip_.Apply(&gradients);
  ++memory_.updates;
  for (const VariableGradients* all : {&gradients, &statistics}) {
    for (const auto& [variable, gradient] : *all) finite_ = finite_ && Update(variable, gradient, share);
  }
}

bool LocalSteps::Update(size_t variable, const Payload& gradient, double share) {
  std::array<UpdatedArray, kMostArrays> arrays;
  arrays[0] = {values_[variable].data(), values_[variable].data()};
  const auto slots = static_cast<size_t>(SlotCount(specs_[variable].kind));
  for (size_t slot = 0; slot < slots; ++slot) {
    float* const numbers = memory_.slots[slot][variable].data();
    arrays[slot + 1] = {numbers, numbers};
  }
  const downpour::Update rule = UpdateFor(specs_[variable], Damping(), memory_.updates, share);
  return ApplyUpdate(rule, gradient.floats(), {arrays.data(), slots + 1}, &bounds_[variable]);
}

VariableGradients LocalSteps::End() {
  VariableGradients taken;
  for (size_t v = 0; v < values_.size(); ++v) {
    Payload payload = Payload::Allocate(values_[v].size() * sizeof(float));
    const absl::Span<float> difference = payload.mutable_floats();
    for (size_t i = 0; i < difference.size(); ++i) {
      difference[i] = finite_ ? pulled_[v][i] - values_[v][i] : std::numeric_limits<float>::quiet_NaN();
    }
    taken.emplace_back(v, std::move(payload));
  }
  if (finite_) candidates_.push_back({lease_, step_, std::move(memory_)});
  return taken;
}

}  // namespace downpour
