// Which examples to look at where all would be too many.
//
//   const std::vector<uint64_t> ids = SampleIds(data.size(), 1 << 16);
//
// Order: rising: all of them, or `most` in runs of 64 that are spread evenly, since examples in a row are read
//   together.
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
  const double stride = static_cast<double>(size - kRun) / static_cast<double>(most / kRun);
  for (uint64_t& id : ids) id = static_cast<uint64_t>(stride * static_cast<double>(id / kRun)) + id % kRun;
  return ids;
}

}  // namespace downpour
