// ChildRows: rows of tables that a step of the user's Python code reads, in memory that worker and child share.
//
//   ChildRows rows(&grid, memory);
//   rows.Begin();                                            // a step, or an evaluation
//   absl::StatusOr<SliceValues> keys = rows.Ask(asked);      // as the child says that it needs; any number of times
//   status = rows.Lay(request.updates);                      // the answers of the buckets
//   rows.AppendGradients(&slices);
//
// Shapes: of memory for n numbers, BytesOf(n): n keys of 8 bytes, which the child writes when it asks; then n float32
//   of rows; then n float32 of their gradients, in the same order. Rows lie one behind the other as they were asked for
//   since Begin. `asked` is [[table, how many keys], ...], tables ascending; of each the keys ascend, as numbers
//   without sign. So a bucket's answer, and its frame of gradients, have the order of runtime/row_frames.h.
// Cost: a key that is asked for costs 24 bytes until the next step. Rows are copied once, gradients once.
// Errors: ABORTED for what no honest child says; CANCELLED for more rows than a message of one bucket has;
//   INVALID_ARGUMENT for answers that are not those of the keys.
// Tests: tests/unit/worker/child_rows_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/slice_grid.h"
#include "runtime/compute.h"

namespace downpour {

class ChildRows {
 public:
  // Numbers that a step can have, of all rows together: of each bucket what a message holds, and no more than a machine
  // can be expected to have memory for.
  static uint64_t MostNumbers(const SliceGrid& grid);
  static constexpr uint64_t BytesOf(uint64_t numbers) { return numbers * (sizeof(uint64_t) + 2 * sizeof(float)); }

  ChildRows() = default;
  // Both outlive this; the memory has BytesOf(MostNumbers(grid)), and the child may write to it at any time.
  ChildRows(const SliceGrid* grid, std::byte* memory);

  void Begin();
  // A frame of keys for each bucket that has any of them.
  absl::StatusOr<SliceValues> Ask(const nlohmann::json& asked);
  // Of each bucket that the last Ask named its rows; other slices are passed over.
  absl::Status Lay(const SliceValues& updates);
  // Zeros in place of the rows that were asked for last.
  void LayNothing();
  // Of each bucket that was asked since Begin a frame.
  void AppendGradients(SliceValues* slices) const;

 private:
  struct Row {
    uint64_t key = 0;
    uint32_t table = 0;
    uint32_t first = 0;  // its first number, among those of all rows
  };
  struct Bucket {
    std::vector<Row> rows = {};
    size_t asked = 0;  // of them before the last Ask
    size_t bytes = 0;  // of a frame with all of them
  };
  float* values() const;
  float* gradients() const;

  const SliceGrid* grid_ = nullptr;
  std::byte* memory_ = nullptr;
  uint64_t most_ = 0;
  std::vector<Bucket> buckets_;
  uint32_t numbers_ = 0;  // of all rows
  uint32_t laid_ = 0;     // of those before the last Ask
};

}  // namespace downpour
