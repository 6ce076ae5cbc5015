#include "tensor/cuda_downloads.h"

#include <utility>

#include "tensor/cuda_status.h"

namespace downpour {

absl::Status CudaDownloads::Open() {
  auto made = MakeCudaStream();
  if (!made.ok()) return made.status();
  stream_ = *std::move(made);
  return absl::OkStatus();
}

absl::Status CudaDownloads::Begin(cudaStream_t computes, const void* from, size_t bytes, void* host) {
  if (spare_.empty()) {
    auto made = MakeCudaEvent();
    if (!made.ok()) return made.status();
    spare_.push_back(*std::move(made));
  }
  // One event serves twice: the stream waits for what it says now, before it is recorded again.
  cudaEvent_t event = spare_.back().get();
  CUDA_TRY(cudaEventRecord(event, computes));
  CUDA_TRY(cudaStreamWaitEvent(stream_.get(), event));
  if (bytes > 0) CUDA_TRY(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream_.get()));
  CUDA_TRY(cudaEventRecord(event, stream_.get()));
  begun_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  return absl::OkStatus();
}

absl::Status CudaDownloads::Await() {
  if (begun_.empty()) return absl::FailedPreconditionError("no download was begun");
  CUDA_TRY(cudaEventSynchronize(begun_.front().get()));
  spare_.push_back(std::move(begun_.front()));
  begun_.pop_front();
  return absl::OkStatus();
}

}  // namespace downpour
