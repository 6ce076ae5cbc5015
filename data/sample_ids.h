// Which examples to look at where all would be too many.
//
//   const std::vector<uint64_t> ids = SampleIds(data.size(), 1 << 16);
//
// Order: rising, each once: all of them, or `most` in runs of 64 that are spread evenly from the first example to the
//   last, since examples in a row are read together.
// Tests: tests/unit/data/dataset_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace downpour {

// `most`: a multiple of 64.
inline std::vector<uint64_t> SampleIds(uint64_t size, uint64_t most) {
  constexpr uint64_t kRun = 64;
  std::vector<uint64_t> ids(std::min(size, most));
  std::iota(ids.begin(), ids.end(), 0);
  if (size <= most) return ids;
  // The last run ends with the last example: what a sorted file ends with is often a class of its own.
  const uint64_t gaps = std::max<uint64_t>(2, most / kRun) - 1, spare = size - kRun;
  for (uint64_t& id : ids) id = spare / gaps * (id / kRun) + spare % gaps * (id / kRun) / gaps + id % kRun;
  return ids;
}

}  // namespace downpour
