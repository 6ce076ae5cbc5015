// The CUDA backend's kernels, each as one piece of work on a stream of the stand-in.
#include <glog/logging.h>

#include <memory>
#include <utility>

#include "tensor/apply_kernels.h"
#include "tensor/cuda_kernels.h"
#include "tensor/host_backend.h"
#include "tests/parity/cuda_stand_in.h"

namespace downpour {
namespace {

Backend& Host() {
  static Backend& host = *MakeHostBackend({}).release();
  return host;
}

template <class Operation>
cudaError_t OnHost(cudaStream_t stream, Operation operation) {
  return LaunchOnStandIn(stream, [operation] { CHECK(operation(Host()).ok()); });
}

absl::Span<const float> Vector(const float* data, int64_t size) { return {data, static_cast<size_t>(size)}; }

}  // namespace

cudaError_t CudaAddBias(cudaStream_t stream, const float* bias, Matrix x) {
  return OnHost(stream, [=](Backend& b) { return b.AddBias(Vector(bias, x.cols), x); });
}
cudaError_t CudaAddBiasActivate(cudaStream_t stream, const float* bias, ActivationFunction f, Matrix x) {
  return OnHost(stream, [=](Backend& b) { return b.AddBiasActivate(Vector(bias, x.cols), f, x); });
}
cudaError_t CudaSumRows(cudaStream_t stream, ConstMatrix x, float beta, float* sums) {
  return OnHost(stream, [=](Backend& b) { return b.SumRows(x, beta, {sums, static_cast<size_t>(x.cols)}); });
}
cudaError_t CudaActivate(cudaStream_t stream, ActivationFunction f, ConstMatrix x, Matrix y) {
  return OnHost(stream, [=](Backend& b) { return b.Activate(f, x, y); });
}
cudaError_t CudaActivateBackward(cudaStream_t stream, ActivationFunction f, ConstMatrix y, ConstMatrix dy, Matrix dx) {
  return OnHost(stream, [=](Backend& b) { return b.ActivateBackward(f, y, dy, dx); });
}
cudaError_t CudaDropout(cudaStream_t stream, DropoutMask mask, ConstMatrix x, Matrix y) {
  return OnHost(stream, [=](Backend& b) { return b.Dropout(mask, x, y); });
}
cudaError_t CudaCopy(cudaStream_t stream, ConstMatrix from, Matrix to) {
  return OnHost(stream, [=](Backend& b) { return b.Copy(from, to); });
}
cudaError_t CudaAccumulate(cudaStream_t stream, ConstMatrix from, Matrix to) {
  return OnHost(stream, [=](Backend& b) { return b.Accumulate(from, to); });
}

cudaError_t CudaSoftmaxCrossEntropy(cudaStream_t stream, ConstMatrix logits, const int32_t* labels, int64_t examples,
                                    Matrix d_logits, double* row_losses) {
  return LaunchOnStandIn(stream, [=] {
    for (int64_t r = 0; r < logits.rows; ++r) {
      BatchTotals totals;
      const Matrix gradient = d_logits.rows == 0 ? Matrix() : Matrix(d_logits.row(r), 1, d_logits.cols);
      const ConstMatrix row(logits.row(r), 1, logits.cols);
      CHECK(Host().SoftmaxCrossEntropy(row, {labels + r, 1}, examples, gradient, &totals).ok());
      row_losses[r] = totals.loss;
    }
  });
}
cudaError_t CudaMeanSquaredError(cudaStream_t stream, ConstMatrix outputs, ConstMatrix targets, int64_t examples,
                                 Matrix d_outputs, double* row_losses) {
  return LaunchOnStandIn(stream, [=] {
    for (int64_t r = 0; r < outputs.rows; ++r) {
      BatchTotals totals;
      const Matrix gradient = d_outputs.rows == 0 ? Matrix() : Matrix(d_outputs.row(r), 1, d_outputs.cols);
      const ConstMatrix row(outputs.row(r), 1, outputs.cols), target(targets.row(r), 1, targets.cols);
      CHECK(Host().MeanSquaredError(row, target, examples, gradient, &totals).ok());
      row_losses[r] = totals.loss;
    }
  });
}
cudaError_t CudaAddLosses(cudaStream_t stream, const double* row_losses, int64_t rows, BatchTotals* totals) {
  return LaunchOnStandIn(stream, [=] {
    for (int64_t r = 0; r < rows; ++r) totals->loss += row_losses[r];
  });
}
cudaError_t CudaCountCorrect(cudaStream_t stream, ConstMatrix outputs, const int32_t* labels, BatchTotals* totals) {
  return OnHost(stream, [=](Backend& b) {
    return b.CountCorrect(outputs, {labels, static_cast<size_t>(outputs.rows)}, totals);
  });
}
cudaError_t CudaRoundToBf16(cudaStream_t stream, const float* from, size_t count, void* to) {
  return LaunchOnStandIn(stream, [=] { RoundToBf16({from, count}, static_cast<Bf16*>(to)); });
}

}  // namespace downpour
