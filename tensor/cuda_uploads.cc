#include "tensor/cuda_uploads.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "tensor/cuda_status.h"

namespace downpour {

absl::Status CudaUploads::Open(cudaStream_t computes) {
  computes_ = computes;
  auto stream = MakeCudaStream();
  if (!stream.ok()) return stream.status();
  stream_ = *std::move(stream);
  for (CudaEvent& computed : computed_) {
    auto made = MakeCudaEvent();
    if (!made.ok()) return made.status();
    computed = *std::move(made);
  }
  return staging_.Open();
}

absl::Status CudaUploads::Use(CudaRegion& region) {
  if (region.upload_pending) CUDA_TRY(cudaStreamWaitEvent(computes_, region.uploaded.get()));
  region.upload_pending = false;
  region.used_behind = fences_;
  return absl::OkStatus();
}

absl::Status CudaUploads::AwaitUses(const CudaRegion& region) {
  if (!fenced_) {
    CUDA_TRY(cudaEventRecord(computed_[(fences_ + 1) % 2].get(), computes_));
    ++fences_;
    fenced_ = true;
  }
  const int64_t covering = std::max(region.used_behind + 1, fences_ - 1);
  if (region.used_behind < 0 || covering <= awaited_) return absl::OkStatus();
  CUDA_TRY(cudaStreamWaitEvent(stream_.get(), computed_[covering % 2].get()));
  awaited_ = covering;
  return absl::OkStatus();
}

absl::Status CudaUploads::MarkUploaded(CudaRegion& region) {
  if (region.uploaded == nullptr) {
    auto event = MakeCudaEvent();
    if (!event.ok()) return event.status();
    region.uploaded = *std::move(event);
  }
  CUDA_TRY(cudaEventRecord(region.uploaded.get(), stream_.get()));
  region.upload_pending = true;
  return absl::OkStatus();
}

absl::Status CudaUploads::Copy(const void* host, size_t bytes, void* to, CudaRegion& region) {
  if (absl::Status status = AwaitUses(region); !status.ok()) return status;
  const absl::Span<const float> floats(static_cast<const float*>(host), bytes / sizeof(float));
  absl::Status status = region.rounded ? staging_.CopyRounded(floats, region.Halves(to), stream_.get())
                                       : staging_.Copy(host, bytes, to, stream_.get());
  return status.ok() ? MarkUploaded(region) : status;
}

absl::Status CudaUploads::CopyPinned(const void* host, size_t bytes, void* to, CudaRegion& region) {
  if (absl::Status status = AwaitUses(region); !status.ok()) return status;
  void* const at = region.rounded ? region.Halves(to) : to;
  CUDA_TRY(cudaMemcpyAsync(at, host, bytes, cudaMemcpyHostToDevice, stream_.get()));
  return MarkUploaded(region);
}

}  // namespace downpour
