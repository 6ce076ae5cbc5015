#include "tensor/cuda_staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensor/cuda_status.h"

namespace downpour {

absl::Status CudaStaging::Open() {
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

absl::Status CudaStaging::Copy(const void* host, size_t bytes, void* to, cudaStream_t stream) {
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

}  // namespace downpour
