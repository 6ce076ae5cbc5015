// The job's optimizer, applied to one slice.
//
// Shapes: the gradient has as many elements as the slice, of either kind; the slice has SlotCount() slots.
// Order: copy on write. Values and slots that nobody else holds are updated in place; what a pull on its way or a
//   snapshot still holds is left as it is, and the update goes into a fresh payload.
// Cost: one pass over memory (tensor/apply_kernels.h).
// Tests: tests/unit/ps/apply_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ps/shard.h"
#include "ps/staleness_rule.h"
#include "schema/job.h"
#include "schema/slice_grid.h"
#include "tensor/apply_kernels.h"

namespace downpour {

// The update number `version` of some values, counted from 1. `spec`: of their variable; `share`: RateShare's.
Update UpdateFor(const OptimizerSpec& spec, const Damping& damping, uint64_t version, double share);

class Optimizer {
 public:
  Optimizer(const TrainingSpec& training, const SliceGrid& grid, const Plan& plan);

  // `staleness`: how many updates the gradient lacks; nothing where that is unknown, which counts as the usual one.
  // Raises the slice's version. False, and nothing has changed, for a gradient that is not finite or that would make
  // some number of the slice so.
  [[nodiscard]] bool Apply(SliceId id, GradientSpan gradient, std::optional<uint64_t> staleness,
                           ServedSlice& slice) const;

  // The same in two steps, for slices whose last slot sums up a group's gradients. Gather adds `share` of one to the
  // sum and changes no values. ApplyGathered applies the sum as a gradient that is not stale, and begins the next one.
  [[nodiscard]] bool Gather(GradientSpan gradient, double share, ServedSlice& slice) const;
  [[nodiscard]] bool ApplyGathered(SliceId id, ServedSlice& slice) const;

 private:
  bool Step(SliceId id, GradientSpan gradient, const Damping& damping, ServedSlice& slice) const;

  std::vector<OptimizerSpec> specs_;   // by variable
  std::vector<uint32_t> variable_of_;  // by slice
  uint64_t job_steps_;
  StalenessRule staleness_rule_;
};

}  // namespace downpour
