// Counting staleness: by how many updates a gradient's parameters were behind when it was applied.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/options.h"
#include "schema/message.h"

namespace downpour {

inline void CountStaleness(uint64_t staleness, Staleness& counts) {
  counts.histogram.resize(kStalenessBuckets + 1);
  ++counts.pushes;
  ++counts.histogram[std::min<uint64_t>(staleness, kStalenessBuckets)];
  counts.sum += staleness;
  counts.max = std::max(counts.max, staleness);
}

// Computed from parameters of another epoch, whose versions do not compare.
inline void CountUnknownStaleness(Staleness& counts) {
  ++counts.pushes;
  ++counts.unknown;
}

}  // namespace downpour
