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

// Over the pushes whose staleness is known; 0 if there are none.
inline double MeanStaleness(const Staleness& counts) {
  const uint64_t known = counts.pushes - std::min(counts.pushes, counts.unknown);
  return known == 0 ? 0 : static_cast<double>(counts.sum) / static_cast<double>(known);
}

}  // namespace downpour
