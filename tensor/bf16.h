// bfloat16: the upper half of a float, as which numbers may travel between worker and ps.
//
// Order: rounding is to the nearest, ties to even; NaN stays NaN, and what is beyond the largest becomes infinite.
// Tests: tests/unit/tensor/bf16_test.cc.
#pragma once

#include <cstdint>

namespace downpour {

struct Bf16 {
  uint16_t bits = 0;
};

}  // namespace downpour
