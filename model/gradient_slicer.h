// GradientSlicer: the gradients of a step, from whole variables to slices as they travel.
//
//   GradientSlicer slicer(&grid, job.training.optimizer);
//   slicer.Settle(request.settled);
//   Gradients{.slices = slicer.SliceGradients({request.lease, request.step}, std::move(ready)), ...};
//
// Order: clipped first (gradient_clip.h), all together where clipping needs_all(). What is not trained is not clipped:
//   it is no gradient.
// Residuals: where slices travel as bfloat16, each is rounded with what the rounding of its slice left out before. That
//   moves the slice's residual, and Settle takes the move back if the gradient was in vain. So of what is settled the
//   counted gradients as they travelled, and the residual, sum up to the exact ones. Residuals die with the slicer.
// Cost: slices share the variables' bytes. As bfloat16: three passes, a float for each parameter, and another one for
//   each that is not settled.
// Tests: tests/unit/model/gradient_slicer_test.cc, trainer_test.cc.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "job/slice_grid.h"
#include "model/gradient_clip.h"
#include "runtime/compute.h"

namespace downpour {

class GradientSlicer {
 public:
  GradientSlicer() = default;
  // The grid outlives it.
  GradientSlicer(const SliceGrid* grid, const OptimizerSpec& optimizer);

  bool needs_all() const { return clip_.needs_all(); }
  using StepName = std::pair<LeaseId, Step>;
  SliceValues SliceGradients(const StepName& step, VariableGradients gradients);
  // Of gradients that were cut here or not. Of two of one step that which is in vain is the newer one.
  void Settle(const std::vector<Settled>& settled);

 private:
  Payload OnWire(const StepName& step, SliceId id, Payload gradient);
  void Settle(const StepName& step, SliceId id, bool counted);

  const SliceGrid* grid_ = nullptr;
  GradientClip clip_;
  std::vector<std::vector<SliceId>> slices_of_;  // by variable
  std::vector<std::vector<float>> residuals_;    // by slice, where gradients are rounded
  // Before less after, of what is not settled; of one step the oldest is first.
  std::map<std::pair<StepName, SliceId>, std::vector<std::vector<float>>> moves_;
};

}  // namespace downpour
