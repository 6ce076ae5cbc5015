// The job's optimizer, applied to one slice.
//
// Shapes: the gradient has as many elements as the slice, of either kind; the slice has SlotCount() slots.
// Order: copy on write. Values and slots that nobody else holds are updated in place; what a pull on its way or a
//   snapshot still holds is left as it is, and the update goes into a fresh payload.
// Cost: one pass over memory (tensor/apply_kernels.h).
// Tests: tests/unit/ps/apply_test.cc.
#pragma once

#include <cstdint>

#include "ps/shard.h"
#include "schema/job.h"
#include "tensor/apply_kernels.h"

namespace downpour {

class Optimizer {
 public:
  explicit Optimizer(const OptimizerSpec& spec) : spec_(spec) {}

  // Raises the slice's version. False, and nothing has changed, for a gradient that is not finite or that would make
  // some number of the slice so.
  [[nodiscard]] bool Apply(GradientSpan gradient, ServedSlice& slice) const;

 private:
  Update RuleFor(uint64_t version) const;

  OptimizerSpec spec_;
};

}  // namespace downpour
