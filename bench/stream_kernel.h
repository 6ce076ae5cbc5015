// The ceiling of whatever is bound by memory: every array streamed once, one addition per element.
//
// Shapes: as ApplyUpdate's (tensor/apply_kernels.h), without slots being any different from values.
#pragma once

#include "absl/types/span.h"
#include "tensor/apply_kernels.h"

namespace downpour {

// For each array: out = in + addend.
void StreamArrays(absl::Span<const float> addend, absl::Span<const UpdatedArray> arrays);

// Three arrays, and what Adam cannot do without: to the first, the second over the root of the third is added instead.
void StreamArraysWithRoots(absl::Span<const float> addend, absl::Span<const UpdatedArray> arrays);

}  // namespace downpour
