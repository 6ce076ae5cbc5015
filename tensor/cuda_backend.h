// The backend that computes on an NVIDIA GPU: cuBLAS for matrix products, own kernels for the rest.
//
// Order: one stream computes, one brings uploads through pinned chunks, one takes downloads away. An operation waits
//   only for the uploads of what it reads or writes; an upload waits for the operations given before it.
// Cost: nothing waits for the whole device but Synchronize. An upload costs its caller one copy into pinned memory.
//   With Precision::kBf16 each matrix that a product reads has a rounded copy beside it, made anew only after a change.
// Errors: NOT_FOUND without such a device, FAILED_PRECONDITION for a driver or a chip that is too old; those of
//   cuda_status.h.
// Source: lives in a module of its own (cuda_module.h), so that hosts without CUDA run the same programs.
// Tests: tests/parity, where a GPU answers.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tensor/backend.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int device);

}  // namespace downpour
