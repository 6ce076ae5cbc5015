// The CUDA part as a module that a program loads at run time, so that one install serves hosts with a GPU and without.
//
//   absl::StatusOr<const CudaModule*> module = LoadCudaModule();
//   if (module.ok()) backend = (*module)->make_backend(0, {});
//
// Errors: NOT_FOUND for what is missing here (the driver, a GPU, the module, a library that it needs), in one sentence
//   for people; FAILED_PRECONDITION for a module of another release.
// Threads: any; a module that was loaded stays.
// Tests: tests/unit/tensor/device_test.cc; tests/parity where a GPU answers.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensor/backend.h"

namespace downpour {

enum class CopyPath { kOnDevice, kToDevice, kToHost };

// A matrix product as Backend::Gemm has it: c[m, n] = op(a) op(b) with an inner size of k.
struct ProductShape {
  Transpose op_a = Transpose::kPlain;
  Transpose op_b = Transpose::kPlain;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

struct CudaOptions {
  bool graphs = true;  // for operations that are repeated; false: to see what they bring
};

struct CudaModule {
  const char* release;
  absl::StatusOr<std::unique_ptr<Backend>> (*make_backend)(int device, const CudaOptions& options);
  // Ceilings for benchmarks: the median of `runs`, in seconds on the device's clock, on random numbers.
  // Of these products by cuBLAS alone, one behind the other as a step has them: so what heat and power take from the
  // chip's clocks they take here too. With kBf16 factors and results are bfloat16 throughout.
  absl::StatusOr<double> (*time_products)(int device, Precision precision, absl::Span<const ProductShape> shapes,
                                          int runs);
  // Of one copy; memory of the host is page-locked.
  absl::StatusOr<double> (*time_copy)(int device, CopyPath path, size_t bytes, int runs);
};

// The name under which a module offers itself: const CudaModule* (*)().
inline constexpr char kCudaModuleEntry[] = "DownpourCudaModule";
inline constexpr char kCudaModuleFile[] = "downpour-cuda.so";

// How many GPUs the driver knows: asks the driver alone, without the module or the toolkit's libraries.
absl::StatusOr<int> CountCudaDevices();
// From the program's own folder, beside where the build puts it, or from where it was installed.
absl::StatusOr<const CudaModule*> LoadCudaModule();

}  // namespace downpour
