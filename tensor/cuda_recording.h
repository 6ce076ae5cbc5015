// Operations of one stream that come again and again, as a CUDA graph.
//
// Order: what a graph does takes its place in the stream as the operations would. No event and no other stream takes
//   part in a capture, and only the capturing thread is kept from what would spoil it.
// Cost: a launch for all of them, after one capture and instantiation.
// Errors: those of cuda_status.h. Whatever fails, the stream computes what it is given next.
// Threads: one at a time.
// Source: CUDA Runtime API, "Stream Management" (capture) and "Graph Management"; cuBLAS, "CUDA Graphs Support":
//   numbers of the host are those of the capture, and a workspace of one's own keeps memory out of the graph.
// Tests: tests/parity/cuda_graph_test.cc.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensor/backend.h"
#include "tensor/cuda_memory.h"

namespace downpour {

class CudaRecording final : public Recording {
 public:
  explicit CudaRecording(cudaStream_t stream) : stream_(stream) {}
  ~CudaRecording() override;  // waits for the stream: a graph that is under way must stay

  // What the operations read and write.
  void AddUse(CudaRegion* region);
  absl::Span<CudaRegion* const> uses() const { return uses_; }

  bool captured() const { return graph_ != nullptr; }
  // Calls `give`, whose operations must have been done before and wait for nothing; now nothing is done.
  absl::Status Capture(const std::function<absl::Status()>& give);
  absl::Status Launch();

 private:
  const cudaStream_t stream_;
  std::vector<CudaRegion*> uses_;
  CudaGraphExec graph_;
};

}  // namespace downpour
