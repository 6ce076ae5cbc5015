// A stand-in for the CUDA runtime and cuBLAS that computes on the host, under which the CUDA backend (streams, events,
// pinned memory, what it hands to cuBLAS) is tested where no GPU is, and its kernels are run as they are
// (cuda_stand_in_device.h).
//
// Order: a stream does what it was given in that order, and nothing else is promised: of the streams that could go on,
//   one drawn from the seed does. So whatever relies on an order that no event makes reads or overwrites the wrong
//   numbers for some seed. With seed 0 nothing happens before somebody waits for it.
// Errors: those that CUDA documents, for a copy beyond an allocation among others. What CUDA would do silently, such as
//   working on another device than the backend's, making a copy wait for pageable memory or rounding factors or sums
//   in some other way than our precisions say, is an error too, as is what is given to the default stream. What a
//   capture does not allow, or may not (memory, waiting, an order with what lies outside of it, naming a device), is
//   refused, and nothing comes of that capture.
// Threads: one at a time.
// Source: CUDA Runtime API reference, "API synchronization behavior", "Event Management" and "Stream Management";
//   cuBLAS, "cublasGemmEx".
// Tests: tests/parity/cuda_stand_in_test.cc, cuda_graph_test.cc.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/types/span.h"

namespace downpour {

inline constexpr int kStandInDevices = 2;

// Begins again, while no backend is there: one will be made for `device`. Who forgets to say which gets the first.
// memory: bytes of the device; to_pin: of the host that can be page-locked.
void ResetCudaStandIn(uint64_t seed, size_t memory = size_t{1} << 30, int device = 1, size_t to_pin = size_t{1} << 30);
// That call from the reset on fails, and with `for_good` every later one, as an
// address that is not allowed does; 0: none.
void FailCudaCall(uint64_t number, bool for_good);
uint64_t CudaCallsThatFailed();
// How many so far made or freed something or waited for the whole device, none of which a step may do again and again.
uint64_t CudaCallsThatStall();
uint64_t CudaGraphsLaunched();

// For what stands in for kernels and libraries. What is launched on a stream that captures is done with its graph.
cudaError_t LaunchOnStandIn(cudaStream_t stream, std::function<void()> kernel);
cudaError_t EnterStandIn();                    // of a call that launches nothing
cudaError_t TellOnStandIn(cudaError_t error);  // the same: cudaGetLastError tells it once more
bool StandInHolds(const void* memory, size_t bytes, bool pinned);
// On the device, that which begins last at or before the address; none: empty.
absl::Span<const std::byte> StandInAllocationBefore(const void* memory);
uint64_t DrawOnStandIn(uint64_t below);  // from the seed

}  // namespace downpour
