// Streams, events, graphs, memory and cuBLAS of one GPU, as owners; and what the backend knows of each piece of device
// memory.
//
// Errors: from Create and Record; destructors ignore them, since a lost GPU answers nothing but errors.
// Threads: those of the CUDA runtime; the device must be the calling thread's current one.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensor/bf16.h"
#include "tensor/cuda_status.h"

namespace downpour {

struct CudaDeleter {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  void operator()(void* memory) const { cudaFree(memory); }
  void operator()(cublasHandle_t handle) const { cublasDestroy(handle); }
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using CudaStream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, CudaDeleter>;
using CudaEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, CudaDeleter>;
using CudaGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, CudaDeleter>;
using CudaGraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, CudaDeleter>;
using CudaMemory = std::unique_ptr<void, CudaDeleter>;

// One that does not wait for the default stream.
inline absl::StatusOr<CudaStream> MakeCudaStream() {
  cudaStream_t stream = nullptr;
  CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return CudaStream(stream);
}
// `flags`: cudaEventDisableTiming for one that only orders.
inline absl::StatusOr<CudaEvent> MakeCudaEvent(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  CUDA_TRY(cudaEventCreateWithFlags(&event, flags));
  return CudaEvent(event);
}
inline absl::StatusOr<CudaMemory> MakeCudaMemory(size_t bytes) {
  void* memory = nullptr;
  CUDA_TRY(cudaMalloc(&memory, bytes));
  return CudaMemory(memory);
}
// Page-locked, freed on whatever thread lets go last: which, if it never named a device, would open the first one for
// it.
inline absl::StatusOr<std::shared_ptr<void>> MakePinnedMemory(size_t bytes) {
  int device = 0;
  CUDA_TRY(cudaGetDevice(&device));
  void* memory = nullptr;
  CUDA_TRY(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable));
  return std::shared_ptr<void>(memory, [device](void* pinned) {
    cudaSetDevice(device);
    cudaFreeHost(pinned);
  });
}

// cuBLAS on a stream, with a workspace of the size that NVIDIA recommends for Hopper. Where it splits a sum it adds the
// parts in 32 bits, also where the result is of 16.
struct Cublas {
  cublasHandle_t get() const { return handle.get(); }
  CudaMemory workspace;
  std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, CudaDeleter> handle;  // after its workspace: it goes first
};
inline absl::StatusOr<Cublas> MakeCublas(const CudaStream& stream) {
  constexpr size_t kWorkspace = size_t{32} << 20;
  auto workspace = MakeCudaMemory(kWorkspace);
  if (!workspace.ok()) return workspace.status();
  Cublas cublas{*std::move(workspace), nullptr};
  cublasHandle_t handle = nullptr;
  CUDA_TRY(cublasCreate(&handle));
  cublas.handle.reset(handle);
  CUDA_TRY(cublasSetStream(handle, stream.get()));
  CUDA_TRY(cublasSetWorkspace(handle, cublas.workspace.get(), kWorkspace));  // after the stream: that resets it
  CUDA_TRY(cublasSetMathMode(handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
  return cublas;
}

// Room for numbers between one kernel and the next. What was given stays: recordings may be of it.
class CudaScratch {
 public:
  absl::StatusOr<double*> Get(int64_t count) {
    if (count > count_) {
      auto memory = MakeCudaMemory(static_cast<size_t>(count) * sizeof(double));
      if (!memory.ok()) return memory.status();
      memory_.push_back(*std::move(memory));
      count_ = count;
    }
    return static_cast<double*>(memory_.back().get());
  }

 private:
  std::vector<CudaMemory> memory_;
  int64_t count_ = 0;  // of the last one
};

// One allocation on the device.
struct CudaRegion {
  CudaMemory memory;
  size_t bytes = 0;
  CudaEvent uploaded = {};      // made by the first upload
  bool upload_pending = false;  // not yet waited for by the stream that computes
  int64_t used_behind = -1;     // how many fences there were before its last use by an operation; -1: never used
  bool rounded = false;         // holds bfloat16, in its first half: addresses are those of floats all the same

  // Where the number of that address lies, of a region that is rounded.
  Bf16* Halves(const void* address) const {
    return static_cast<Bf16*>(memory.get()) +
           (static_cast<const float*>(address) - static_cast<const float*>(memory.get()));
  }
};

class CudaRegions {
 public:
  void Add(CudaRegion region) { regions_[Key(region.memory.get())] = std::move(region); }
  void Remove(const void* begin) { regions_.erase(Key(begin)); }

  // The region around an address that some Allocate gave, or null for a foreign one.
  CudaRegion* Find(const void* address) {
    auto next = regions_.upper_bound(Key(address));
    if (next == regions_.begin()) return nullptr;
    const auto at = std::prev(next);
    return Key(address) - at->first < at->second.bytes ? &at->second : nullptr;
  }

 private:
  static uintptr_t Key(const void* address) { return reinterpret_cast<uintptr_t>(address); }
  std::map<uintptr_t, CudaRegion> regions_;
};

}  // namespace downpour
