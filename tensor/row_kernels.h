// One optimizer step on rows of a table: the rules of slices (tensor/update.h), on many short arrays.
//
//   const RowShape shape = {.width = 16, .slots = 1};
//   UpdateRows(update, shape, gradients, rows);
//
// Shapes: a row is its values, then its slots, `shape.bytes()` in all. Values are float32, or bfloat16 and then padded
//   to 4 bytes; a slot has as many float32 as the row has values, or one. Rows begin where a float may.
// Order: the same bits on every CPU; of the elements of a row those of ApplyUpdate. What is added up over a row is
//   added up in 16 sums, of every 16th element each, which are then added in halves: 8 to 8, 4 to 4, and so on.
//   Numbers below 2^-126 are 0 (tensor/flush_subnormals.h).
// Cost: in place, one pass. Nothing is looked at: RowsStaySafe says before whether every result will be finite.
// Threads: pure.
// Tests: tests/unit/tensor/row_kernels_test.cc holds every CPU target against ApplyUpdate and a scalar loop.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tensor/apply_kernels.h"
#include "tensor/update.h"

namespace downpour {

inline constexpr size_t kMostRowWidth = 4096;

struct RowShape {
  size_t width = 0;          // values: 1 to kMostRowWidth
  size_t slots = 0;          // as many as the update has
  bool halves = false;       // values are bfloat16: a result is rounded to the nearest
  bool slot_is_one = false;  // of an update of squares: one slot of one number, the mean over the row of the squares

  size_t value_bytes() const { return (width * (halves ? sizeof(Bf16) : sizeof(float)) + 3) / 4 * 4; }
  size_t slot_width() const { return slot_is_one ? 1 : width; }
  size_t bytes() const { return value_bytes() + slots * slot_width() * sizeof(float); }
  const float* slot(const std::byte* row, size_t i) const {
    return reinterpret_cast<const float*>(row + value_bytes()) + i * slot_width();
  }
};

// A row, and which part of the gradients is its own: the elements from index * width on.
struct UpdatedRow {
  std::byte* at = nullptr;
  size_t index = 0;
};

// CHECKs that the shape has the update's slots. The update has no correction.
void UpdateRows(const Update& update, const RowShape& shape, GradientSpan gradients, absl::Span<const UpdatedRow> rows);

// Whether every result is finite, and finite as bfloat16, for gradients of at most that magnitude and rows whose values
// and slots are bounded so. Raises the bounds then to those of the results; else nothing is changed. Monotone: what is
// safe within some bounds is so within smaller ones.
bool RowsStaySafe(const Update& update, const RowShape& shape, double largest, Magnitudes* bounds);

// The row's values as floats. `to` has shape.width elements.
void ReadValues(const RowShape& shape, const std::byte* row, float* to);
// The row with these values, rounded if need be, and slots of 0.
void BeginRow(const RowShape& shape, const float* values, std::byte* row);
// Raises `largest` to the magnitudes in the row. Infinity or NaN where it holds such.
void RaiseToRow(const RowShape& shape, const std::byte* row, Magnitudes* largest);

}  // namespace downpour
