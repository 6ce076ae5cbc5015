// Copies into pinned memory, on a stream of their own, of what another stream was given to compute so far.
//
// Order: Await returns when the oldest one that was begun and not yet awaited is there.
// Cost: events are made for as many as are under way at once, and used again.
// Errors: those of cuda_status.h; FAILED_PRECONDITION where nothing was begun.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "tensor/cuda_memory.h"

namespace downpour {

class CudaDownloads {
 public:
  absl::Status Open();
  cudaStream_t stream() const { return stream_.get(); }

  absl::Status Begin(cudaStream_t computes, const void* from, size_t bytes, void* host);
  absl::Status Await();

 private:
  CudaStream stream_;
  std::deque<CudaEvent> begun_;   // the oldest first
  std::vector<CudaEvent> spare_;  // of those that were awaited
};

}  // namespace downpour
