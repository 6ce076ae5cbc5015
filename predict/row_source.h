// RowSource: rows of tables that are not in memory, as a predictor asks for those of a batch.
//
//   absl::StatusOr<TableValues> rows = source.Fetch({{3, 7}, {}});   // of the first of two tables the rows of two keys
//
// Shapes: by table; keys ascend, and each is there once. For each of them there are the numbers of a row, in their
//   order. A key that has no row is answered with its initial numbers.
// Errors: UNAVAILABLE where they do not come; INVALID_ARGUMENT with the remedy for more than one question may want.
// Threads: any.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace downpour {

using TableKeys = std::vector<std::vector<uint64_t>>;
using TableValues = std::vector<std::vector<float>>;

class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual absl::StatusOr<TableValues> Fetch(const TableKeys& keys) const = 0;
};

}  // namespace downpour
