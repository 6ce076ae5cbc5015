// A ring of pinned chunks through which uploads go: the caller's memory may change as soon as Copy returns, while the
// copies to the device go on.
//
// Cost: one pass on the CPU; it waits only where the ring is full of chunks still on their way.
// Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensor/bf16.h"
#include "tensor/cuda_memory.h"

namespace downpour {

class CudaStaging {
 public:
  static constexpr size_t kChunkBytes = size_t{1} << 20;  // a whole slice
  static constexpr size_t kChunks = 16;

  absl::Status Open();
  absl::Status Copy(const void* host, size_t bytes, void* to, cudaStream_t stream);
  absl::Status CopyRounded(absl::Span<const float> host, Bf16* to, cudaStream_t stream);

 private:
  // write(chunk, first, bytes) puts that part of all the bytes into the chunk.
  template <class Write>
  absl::Status Send(size_t bytes, void* to, cudaStream_t stream, const Write& write);

  std::shared_ptr<void> memory_;
  std::array<CudaEvent, kChunks> sent_;
  size_t next_ = 0;
};

}  // namespace downpour
