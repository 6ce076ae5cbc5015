#include "tensor/cuda_staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensor/apply_kernels.h"
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

template <class Write>
absl::Status CudaStaging::Send(size_t bytes, void* to, cudaStream_t stream, const Write& write) {
  for (size_t done = 0; done < bytes;) {
    const size_t part = std::min(bytes - done, kChunkBytes);
    cudaEvent_t sent = sent_[next_].get();
    CUDA_TRY(cudaEventSynchronize(sent));  // returns at once for one that was never recorded
    char* chunk = static_cast<char*>(memory_.get()) + next_ * kChunkBytes;
    write(chunk, done, part);
    CUDA_TRY(cudaMemcpyAsync(static_cast<char*>(to) + done, chunk, part, cudaMemcpyHostToDevice, stream));
    CUDA_TRY(cudaEventRecord(sent, stream));
    next_ = (next_ + 1) % kChunks;
    done += part;
  }
  return absl::OkStatus();
}

absl::Status CudaStaging::Copy(const void* host, size_t bytes, void* to, cudaStream_t stream) {
  return Send(bytes, to, stream, [host](char* chunk, size_t first, size_t part) {
    std::memcpy(chunk, static_cast<const char*>(host) + first, part);
  });
}

absl::Status CudaStaging::CopyRounded(absl::Span<const float> host, Bf16* to, cudaStream_t stream) {
  return Send(host.size() * sizeof(Bf16), to, stream, [host](char* chunk, size_t first, size_t part) {
    RoundToBf16(host.subspan(first / sizeof(Bf16), part / sizeof(Bf16)), reinterpret_cast<Bf16*>(chunk));
  });
}

}  // namespace downpour
