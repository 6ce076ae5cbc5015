// The slice grid: every variable cut into slices, by the model alone and never by the number of servers.
//
// Shapes: a slice is a run of a variable's row-major elements, at most 1 MiB (262,144 floats). A variable that fits is
//   one slice, in small models too: a server that sees the whole matrix damps stale steps better
//   (docs/research/staleness.md).
// Units: bytes() are a slice's as it is kept, WireBytes() those of its gradient and its values on their way.
// Buckets: a model with tables has so many slices more, behind the others. A bucket holds the rows of all tables whose
//   keys fall into it (runtime/row_frames.h). Its size is not known: it grows.
// Order: slice ids are dense, by variable, then by offset; buckets last.
// Tests: tests/unit/job/slice_grid_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "job/variables.h"
#include "schema/ids.h"

namespace downpour {

inline constexpr int64_t kMaxSliceElements = 262144;
inline constexpr uint32_t kNoVariable = UINT32_MAX;

struct Slice {
  SliceId id{};
  uint32_t variable = 0;  // index into the grid's variables; of a bucket kNoVariable
  int64_t offset = 0;     // first element, in the variable; of a bucket its number
  int64_t elements = 0;   // of a bucket 0
  int64_t bytes() const { return elements * 4; }
};

struct SliceGrid {
  std::vector<VariableSpec> variables;
  std::vector<Slice> slices;              // slices[i].id == i
  WireFormat wire = WireFormat::kFp32;    // of variables; rows are always float32 on their way
  std::vector<uint32_t> row_widths = {};  // of each table
  uint32_t buckets = 0;
  size_t dense() const { return slices.size() - buckets; }  // slices of variables; these come first
  bool IsBucket(SliceId id) const { return at(id).variable == kNoVariable; }
  SliceId BucketAt(uint32_t number) const { return slices[dense() + number].id; }
  const Slice& at(SliceId id) const { return slices[ToNumber(id)]; }
  size_t size() const { return slices.size(); }
  size_t WireBytes(SliceId id) const {
    return static_cast<size_t>(at(id).elements) * (wire == WireFormat::kBf16 ? 2 : 4);
  }
  bool Contains(SliceId id) const { return ToNumber(id) < slices.size(); }
};

SliceGrid MakeSliceGrid(std::vector<VariableSpec> variables);

// Of the model's variables and tables. Errors: as InferVariables.
absl::StatusOr<SliceGrid> GridOf(const ModelSpec& model, WireFormat wire = WireFormat::kFp32);

}  // namespace downpour
