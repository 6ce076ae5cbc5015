// LocalSteps: the optimizer steps that a worker takes alone, on its own copy of the parameters (training.localSteps).
//
//   LocalSteps local(job, &grid, plan);
//   local.Set(slice, values);             // what was pulled, as it travels
//   local.Begin(request);                 // the copy is what was pulled, whatever a step before made of it
//   for (each batch of the step) {        // computed on values()
//     local.Take(std::move(gradients));   // one optimizer step
//   }
//   VariableGradients pushed = local.End();
//
// Shapes: each Take brings the gradients of all variables, of the batch's mean loss. End gives as many numbers: what
//   was pulled less what became of it.
// Order: gradients are clipped as they are without local steps (gradient_clip.h). The learning rate's schedule goes by
//   the batch's number in the plan, so a step computed again takes the same rates.
//   What the optimizer remembers (momentum, sums of squares) goes on from step to step. It moves on with steps that
//   every slice counted: one that was in vain on some slice leaves it as it was, and takes along those that were
//   computed on top of it. Until that is known the next step goes on from the newest.
//   FTRL's values follow from its sums, so where others changed a value meanwhile its sum z is set to give that one.
// Cost: beside the job's optimizer two copies of the parameters; of the optimizer's slots one, and one for each step
//   that is not settled yet. A step copies the slots once.
// Errors: none. Where an update would not be finite the copy stays as it was, and all of the difference becomes NaN, so
//   that no slice applies the step. What the optimizer remembers does not move then.
// Source: Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019; Douillard et al., "DiLoCo", 2023,
//   Algorithm 1.
// Tests: tests/unit/model/local_steps_test.cc; against torch tests/optimizers/torch_test.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "job/job.h"
#include "job/slice_grid.h"
#include "model/gradient_clip.h"
#include "runtime/compute.h"
#include "runtime/plan.h"
#include "tensor/apply_kernels.h"

namespace downpour {

class LocalSteps {
 public:
  // `grid` outlives it.
  LocalSteps(const JobSpec& job, const SliceGrid* grid, const Plan& plan);

  void Set(SliceId slice, const Payload& values);  // SliceGrid::WireBytes of them
  void Begin(const TrainStep& request);
  // The copy is what was pulled: for an evaluation.
  void Reset() { values_ = pulled_; }
  absl::Span<const float> values(size_t variable) const { return values_[variable]; }
  void Take(VariableGradients gradients);
  VariableGradients End();

 private:
  using Floats = std::vector<std::vector<float>>;  // by variable
  // What the optimizer remembers.
  struct Memory {
    std::vector<Floats> slots;
    uint64_t updates = 0;
  };
  // Of a computed step. Of two of one name the older one is first, and what is in vain is of the newer one.
  struct Candidate {
    LeaseId lease{};
    Step step = 0;
    size_t unsettled = 0;          // slices
    std::optional<Memory> memory;  // none: it was in vain
  };

  void Settle(const Settled& gradient);
  void MoveOn();
  const Memory& Newest() const;
  void FitSums();
  bool Update(size_t variable, const Payload& gradient, double share);

  const SliceGrid* grid_;
  Plan plan_;
  GradientClip clip_;
  ScheduleSpec schedule_;
  std::vector<OptimizerSpec> specs_;  // by variable, as are the next
  Floats pulled_;
  Floats values_;
  std::vector<Magnitudes> bounds_;
  Memory settled_;                     // moved on with every step that counted
  std::vector<Candidate> candidates_;  // in the order of computing, each on top of the memory before it
  Memory memory_;                      // of the step at hand, as are the next
  LeaseId lease_{};
  Step step_ = 0;
  uint64_t batch_ = 0;  // in the plan
  bool finite_ = true;
};

}  // namespace downpour
