// Copies to the device on a stream of their own, beside what another stream computes.
//
// Order: a copy comes behind the operations on its memory that were given before it, an operation behind the copies to
//   what it uses. So a batch comes up beside the computing of the one before it, into memory that the one before that
//   was read from.
// Cost: of Copy one pass on the CPU, through a ring of pinned chunks; it waits only where that is full.
// Errors: those of cuda_status.h.
// Threads: one at a time.
// Tests: tests/parity/device_parity_test.cc, cuda_stand_in_test.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "tensor/cuda_memory.h"
#include "tensor/cuda_staging.h"

namespace downpour {

class CudaUploads {
 public:
  absl::Status Open(cudaStream_t computes);
  cudaStream_t stream() const { return stream_.get(); }

  // Before an operation is given to the stream that computes: once, and for each region that it uses.
  void BeginOperation() { fenced_ = false; }
  absl::Status Use(CudaRegion& region);

  // Of floats, or of whatever else lies in a region that is not rounded. The host's memory may change at once.
  absl::Status Copy(const void* host, size_t bytes, void* to, CudaRegion& region);
  // From pinned memory, as the region keeps them: of `bytes` there. It must not change before an operation that used
  // the region has ended.
  absl::Status CopyPinned(const void* host, size_t bytes, void* to, CudaRegion& region);

 private:
  // Before a copy: all operations on the region have ended, maybe with some given since the last fence but one.
  absl::Status AwaitUses(const CudaRegion& region);
  absl::Status MarkUploaded(CudaRegion& region);

  cudaStream_t computes_ = nullptr;
  CudaStream stream_;
  std::array<CudaEvent, 2> computed_;  // what computes_ had been given at each of the last two fences
  int64_t fences_ = 0, awaited_ = 0;   // how many so far; the last one that stream_ waits for
  bool fenced_ = false;                // nothing was given to computes_ since the last one
  CudaStaging staging_;
};

}  // namespace downpour
