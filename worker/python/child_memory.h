// ChildMemory: where each variable lies in the memory that a process of the user's code sees.
//
//   const ChildMemory memory(grid.variables);
//   std::byte* at = shared + memory.offsets[variable];
//
// Shapes: float32, row-major, each variable at the next multiple of 64 bytes; a region of all of them ends at a
//   multiple of 4,096. The first region has the parameters, all further ones are sets of gradients in the same order.
//   python/downpour/variables.py lays it out likewise, and wants two regions or more.
// Tests: tests/unit/worker/python_computer_test.cc.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "job/variables.h"

namespace downpour {

struct ChildMemory {
  explicit ChildMemory(absl::Span<const VariableSpec> variables);

  std::vector<size_t> offsets;  // of each variable in a region, in bytes
  size_t region = 0;            // bytes
};

}  // namespace downpour
