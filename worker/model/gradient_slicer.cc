#include "worker/model/gradient_slicer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tensor/apply_kernels.h"

namespace downpour {

GradientSlicer::GradientSlicer(const SliceGrid* grid, const OptimizerSpec& optimizer)
    : grid_(grid), clip_(optimizer), slices_of_(grid->variables.size()) {
  for (const Slice& slice : grid->slices) {
    slices_of_[slice.variable].push_back(slice.id);
    if (grid->wire == WireFormat::kBf16) residuals_.emplace_back(static_cast<size_t>(slice.elements));
  }
}

SliceValues GradientSlicer::SliceGradients(VariableGradients gradients) {
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
        cut.emplace_back(id, OnWire(id, values.Sub(offset, static_cast<size_t>(slice.bytes()))));
      }
    }
  }
  return cut;
}

Payload GradientSlicer::OnWire(SliceId id, Payload gradient) {
  if (grid_->wire == WireFormat::kFp32) return gradient;
  Payload rounded = Payload::Allocate(grid_->WireBytes(id));
  RoundWithFeedback(gradient.floats(), residuals_[ToNumber(id)].data(), rounded.mutable_as<Bf16>().data());
  return rounded;
}

}  // namespace downpour
