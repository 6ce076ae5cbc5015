#include "model/gradient_slicer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tensor/apply_kernels.h"

namespace downpour {

GradientSlicer::GradientSlicer(const SliceGrid* grid, const OptimizerSpec& optimizer)
    : grid_(grid), clip_(optimizer), slices_of_(grid->variables.size()) {
  for (const Slice& slice : grid->slices) {
    if (grid->IsBucket(slice.id)) break;
    slices_of_[slice.variable].push_back(slice.id);
    if (grid->wire == WireFormat::kBf16) residuals_.emplace_back(static_cast<size_t>(slice.elements));
  }
}

SliceValues GradientSlicer::SliceGradients(const StepName& step, VariableGradients gradients) {
  const auto others = std::stable_partition(gradients.begin(), gradients.end(), [this](const auto& gradient) {
    return grid_->variables[gradient.first].trainable;
  });
  VariableGradients statistics(std::make_move_iterator(others), std::make_move_iterator(gradients.end()));
  gradients.erase(others, gradients.end());
  clip_.Apply(&gradients);
  SliceValues cut;
  for (const VariableGradients* all : {&gradients, &statistics}) {
    for (const auto& [variable, values] : *all) {
      for (const SliceId id : slices_of_[variable]) {
        const Slice& slice = grid_->at(id);
        const size_t offset = static_cast<size_t>(slice.offset) * sizeof(float);
        cut.emplace_back(id, OnWire(step, id, values.Sub(offset, static_cast<size_t>(slice.bytes()))));
      }
    }
  }
  return cut;
}

Payload GradientSlicer::OnWire(const StepName& step, SliceId id, Payload gradient) {
  if (grid_->wire == WireFormat::kFp32) return gradient;
  std::vector<float>& residual = residuals_[ToNumber(id)];
  std::vector<float> move = residual;
  Payload rounded = Payload::AllocateToSend(grid_->WireBytes(id));
  RoundWithFeedback(gradient.floats(), residual.data(), rounded.mutable_as<Bf16>().data());
  for (size_t i = 0; i < move.size(); ++i) move[i] -= residual[i];
  moves_[{step, id}].push_back(std::move(move));
  return rounded;
}

void GradientSlicer::Settle(const std::vector<Settled>& settled) {
  for (const Settled& gradient : settled) Settle({gradient.lease, gradient.step}, gradient.slice, gradient.counted);
}

// A step may be computed again for other slices while this one's gradient is on its way: the newer one goes nowhere.
void GradientSlicer::Settle(const StepName& step, SliceId id, bool counted) {
  const auto moves = moves_.find({step, id});
  if (moves == moves_.end()) return;
  const auto move = counted ? moves->second.begin() : moves->second.end() - 1;
  // Others may have moved it since: what is taken back is this one's share.
  std::vector<float>& residual = residuals_[ToNumber(id)];
  for (size_t i = 0; !counted && i < residual.size(); ++i) residual[i] += (*move)[i];
  moves->second.erase(move);
  if (moves->second.empty()) moves_.erase(moves);
}

}  // namespace downpour
