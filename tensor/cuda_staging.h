// A ring of pinned chunks through which uploads go: the caller's memory may change as soon as Copy returns, while the
// copies to the device go on.
//
// Cost: one copy on the CPU; it waits only where the ring is full of chunks still on their way.
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "tensor/cuda_memory.h"

namespace downpour {

class CudaStaging {
 public:
  static constexpr size_t kChunkBytes = size_t{1} << 20;  // a whole slice
  static constexpr size_t kChunks = 16;

  absl::Status Open() {
    auto memory = MakePinnedMemory(kChunks * kChunkBytes);
    if (!memory.ok()) return memory.status();
    memory_ = *std::move(memory);
    for (CudaEvent& event : sent_) {
      auto made = MakeCudaEvent();
      if (!made.ok()) return made.status();
      event = *std::move(made);
    }
    return absl::OkStatus();
  }

  absl::Status Copy(const void* host, size_t bytes, void* to, cudaStream_t stream) {
    for (size_t done = 0; done < bytes;) {
      const size_t part = std::min(bytes - done, kChunkBytes);
      cudaEvent_t sent = sent_[next_].get();
      CUDA_TRY(cudaEventSynchronize(sent));  // returns at once for one that was never recorded
      char* chunk = static_cast<char*>(memory_.get()) + next_ * kChunkBytes;
      std::memcpy(chunk, static_cast<const char*>(host) + done, part);
      CUDA_TRY(cudaMemcpyAsync(static_cast<char*>(to) + done, chunk, part, cudaMemcpyHostToDevice, stream));
      CUDA_TRY(cudaEventRecord(sent, stream));
      next_ = (next_ + 1) % kChunks;
      done += part;
    }
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<void> memory_;
  std::array<CudaEvent, kChunks> sent_;
  size_t next_ = 0;
};

}  // namespace downpour
