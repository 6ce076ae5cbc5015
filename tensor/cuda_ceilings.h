// What a GPU can do at best, for benchmarks: cuBLAS alone and plain copies, timed by the device's events.
//
// Units: seconds, the median of `runs` (above 0) after as many that warm up. Products run on random numbers: zeros are
//   faster.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensor/cuda_module.h"

namespace downpour {

absl::StatusOr<double> TimeCudaProducts(int device, Precision precision, absl::Span<const ProductShape> shapes,
                                        int runs);
absl::StatusOr<double> TimeCudaCopy(int device, CopyPath path, size_t bytes, int runs);

}  // namespace downpour
