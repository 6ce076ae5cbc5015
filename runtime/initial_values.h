// The values a slice starts with.
//
// Order: element i of a variable is a pure function of (seed, the variable's name, i), so the result depends neither on
//   the cut into slices nor on who asks, and has the same bits on every CPU (one product of floats, no libm beyond one
//   correctly rounded sqrt).
// Cost: about 2 ns per element.
// Tests: tests/unit/runtime/initial_values_test.cc.
#pragma once

#include <cstdint>

#include "job/slice_grid.h"

namespace downpour {

// Writes grid.at(slice).elements floats to `values`.
void InitialValues(uint64_t seed, const SliceGrid& grid, SliceId slice, float* values);

}  // namespace downpour
