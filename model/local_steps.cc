#include "model/local_steps.h"

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

void LocalSteps::Settle(const Settled& gradient) {
  const auto is_it = [&](const Candidate& c) {
    return c.lease == gradient.lease && c.step == gradient.step && c.unsettled > 0;
  };
  auto found = std::find_if(candidates_.begin(), candidates_.end(), is_it);
  if (found == candidates_.end()) return;
  if (!gradient.counted) {
    found = std::find_if(candidates_.rbegin(), candidates_.rend(), is_it).base() - 1;
    const auto end = found->memory ? candidates_.end() : found;
    for (auto behind = found; behind < end; ++behind) behind->memory.reset();
  }
  --found->unsettled;
}

// In their order: a later one's memory holds what is not known of an earlier one.
void LocalSteps::MoveOn() {
  for (Candidate& candidate : candidates_) {
    if (!candidate.memory) continue;
    if (candidate.unsettled > 0) break;
    settled_ = *std::exchange(candidate.memory, std::nullopt);
  }
  std::erase_if(candidates_, [](const Candidate& c) { return !c.memory && c.unsettled == 0; });
}

const LocalSteps::Memory& LocalSteps::Newest() const {
  const auto newest =
      std::find_if(candidates_.rbegin(), candidates_.rend(), [](const Candidate& c) { return c.memory.has_value(); });
  return newest == candidates_.rend() ? settled_ : *newest->memory;
}

void LocalSteps::Begin(const TrainStep& request) {
  for (const Settled& gradient : request.settled) Settle(gradient);
  MoveOn();
  lease_ = request.lease;
  step_ = request.step;
  batch_ = plan_.BatchesBefore(request.lease, request.step);
  finite_ = true;
  memory_ = Newest();
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
  candidates_.push_back({lease_, step_, grid_->size(), std::nullopt});
  if (finite_) candidates_.back().memory = std::move(memory_);
  return taken;
}

}  // namespace downpour
