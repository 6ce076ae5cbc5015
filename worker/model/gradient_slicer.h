// GradientSlicer: the gradients of a step, from whole variables to slices as they travel.
//
//   GradientSlicer slicer(&grid, job.training.optimizer);
//   Gradients{.slices = slicer.SliceGradients(std::move(ready)), ...};
//
// Order: clipped first (gradient_clip.h), all together where clipping needs_all(). What is not trained is not clipped:
//   it is no gradient.
// Cost: slices share the variables' bytes. Where they travel as bfloat16 each is rounded with what the rounding of its
//   slice left out before: one pass, and a float for each parameter. Those residuals move with each call, pushed or
//   not, and die with the slicer.
// Tests: tests/unit/worker/gradient_slicer_test.cc, trainer_test.cc.
#pragma once

#include <vector>

#include "job/slice_grid.h"
#include "runtime/compute.h"
#include "worker/model/gradient_clip.h"

namespace downpour {

class GradientSlicer {
 public:
  GradientSlicer() = default;
  // The grid outlives it.
  GradientSlicer(const SliceGrid* grid, const OptimizerSpec& optimizer);

  bool needs_all() const { return clip_.needs_all(); }
  SliceValues SliceGradients(VariableGradients gradients);

 private:
  Payload OnWire(SliceId id, Payload gradient);

  const SliceGrid* grid_ = nullptr;
  GradientClip clip_;
  std::vector<std::vector<SliceId>> slices_of_;  // by variable
  std::vector<std::vector<float>> residuals_;    // by slice, where gradients are rounded
};

}  // namespace downpour
