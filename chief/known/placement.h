// Which server holds which slice: a pure function of the grid and the number of servers.
//
// Order: the largest slice first, each to the server with the fewest bytes so far (Graham 1969): no server holds more
//   than the mean and one largest slice. Equal inputs give equal placements.
// Cost: O(slices * log). Servers beyond the number of slices stay empty.
// Tests: tests/unit/chief/placement_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "job/slice_grid.h"

namespace downpour {

// [i]: the server of slice i, below `servers`, which is at least 1.
std::vector<uint32_t> PlaceSlices(const SliceGrid& grid, uint32_t servers);

}  // namespace downpour
