// A file of records cut into sets by a hash of each record: train, eval and, with a third share, test.
//
//   auto sets = SplitRecords(data, "people.csv", "sets", {80, 20}, /*seed=*/1);
//
// Shapes: sets/train.csv and so on, not packed, each with the header that the file has, its records in their order and
//   byte for byte. A record that stands there twice goes to one set both times, so that none is learned and judged by.
// Cost: one pass; memory of the longest record.
// Errors: INVALID_ARGUMENT for a share that is not above 0; those of reading, with file and place; ALREADY_EXISTS for a
//   set that is there, and nothing is written; of writing what absl::ErrnoToStatus makes of it, and no set is left.
// Tests: tests/unit/tools/cli/data_split_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "job/data_spec.h"

namespace downpour {

inline constexpr size_t kMostSets = 3;

struct SplitSet {
  std::string path;
  uint64_t records = 0;
};

// `shares`: 2 or 3, each above 0, in any unit.
absl::StatusOr<std::vector<SplitSet>> SplitRecords(const DataSpec& data, const std::string& path,
                                                   const std::string& folder, const std::vector<double>& shares,
                                                   uint64_t seed);

}  // namespace downpour
