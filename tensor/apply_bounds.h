// Bounds of magnitudes: what an update can make of values and slots, without a look at them.
//
//   if (StaysSafe(update, largest, 1 + SlotsOf(update), &bounds))   // every result is finite, as bfloat16 too
//
// Order: bounds hold for the operations that apply_kernels.h states, each rounded to float32.
// Cost: some 30 operations for each update of a slice.
// Tests: tests/unit/tensor/apply_kernels_test.cc.
#pragma once

#include <cstddef>

#include "tensor/update.h"

namespace downpour {

// Raises the bounds of the `count` arrays to what the update can make by a gradient of at most that magnitude; false,
// and nothing is changed, if that may be beyond float32.
bool StaysSafe(const Update& update, double largest, size_t count, Magnitudes* bounds);

}  // namespace downpour
