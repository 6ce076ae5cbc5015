// The backend that computes on an NVIDIA GPU: cuBLAS for matrix products, own kernels for the rest.
//
// Order: one stream computes, one brings uploads through pinned chunks, one takes downloads away. An operation waits
//   only for the uploads of what it reads or writes; an upload only for operations on the memory that it writes, and
//   for some older ones.
// Cost: nothing waits for the whole device but Synchronize. An upload costs its caller one copy into pinned memory.
//   With Precision::kBf16 memory of kFactor holds bfloat16 alone: floats are rounded while they are staged.
//   Operations that are repeated are one CUDA graph from the second time on: one launch instead of one each.
// Errors: those of cuda_device.h and cuda_status.h. Where a graph cannot be had a line in the log says why, and the
//   backend goes on without any.
// Source: lives in a module of its own (cuda_module.h), so that hosts without CUDA run the same programs.
// Tests: tests/parity, on a GPU where one answers and on a stand-in where the toolkit is: cuda_stand_in_test.cc,
//   cuda_graph_test.cc.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/backend.h"
#include "tensor/cuda_module.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int device, const CudaOptions& options = {});

}  // namespace downpour
