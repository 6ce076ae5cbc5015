// Three slices at one ps: two of a full megabyte and a small one.
#pragma once

#include <cstdint>

#include "job/slice_grid.h"
#include "schema/ids.h"

namespace downpour {

constexpr Incarnation kMe{5}, kPs{10};
constexpr uint64_t kMiB = uint64_t{1} << 20;

inline SliceGrid ThreeSlices() {
  SliceGrid grid;
  grid.variables.resize(1);
  grid.slices = {{SliceId{0}, 0, 0, kMaxSliceElements},
                 {SliceId{1}, 0, kMaxSliceElements, kMaxSliceElements},
                 {SliceId{2}, 0, 2 * kMaxSliceElements, 8}};
  return grid;
}

}  // namespace downpour
