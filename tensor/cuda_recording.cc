#include "tensor/cuda_recording.h"

#include <algorithm>

#include "tensor/cuda_status.h"

namespace downpour {

CudaRecording::~CudaRecording() {
  if (captured()) cudaStreamSynchronize(stream_);
}

void CudaRecording::AddUse(CudaRegion* region) {
  if (std::find(uses_.begin(), uses_.end(), region) == uses_.end()) uses_.push_back(region);
}

absl::Status CudaRecording::Capture(const std::function<absl::Status()>& give) {
  CUDA_TRY(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  CudaGraph graph;
  const auto end = [&]() -> absl::Status {
    cudaGraph_t captured = nullptr;
    CUDA_TRY(cudaStreamEndCapture(stream_, &captured));
    graph.reset(captured);
    return absl::OkStatus();
  };
  absl::Status status = give();
  status.Update(end());  // come what may: else the stream would never compute again
  if (!status.ok()) return status;
  cudaGraphExec_t executable = nullptr;
  CUDA_TRY(cudaGraphInstantiate(&executable, graph.get(), 0));
  graph_.reset(executable);
  return absl::OkStatus();
}

absl::Status CudaRecording::Launch() {
  CUDA_TRY(cudaGraphLaunch(graph_.get(), stream_));
  return absl::OkStatus();
}

}  // namespace downpour
