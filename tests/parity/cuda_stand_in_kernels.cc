// The CUDA backend's kernels, each as one piece of work on a stream of the stand-in.
#include <glog/logging.h>

#include <memory>
#include <utility>
#include <vector>

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

// A matrix of either storage as one of floats; what the host writes goes back in the end.
class AsFloats {
 public:
  explicit AsFloats(CudaConstMatrix m) : view_(const_cast<float*>(m.floats), m.rows, m.cols, m.stride) {
    if (m.halves == nullptr) return;
    floats_.resize(static_cast<size_t>(m.elements()));
    view_ = Matrix(floats_.data(), m.rows, m.cols);
    for (int64_t r = 0; r < m.rows; ++r) WidenBf16(Row(m.halves, m, r), view_.row(r));
  }
  explicit AsFloats(CudaMatrix m) : AsFloats(CudaConstMatrix(m)) { back_ = m; }
  AsFloats(const AsFloats&) = delete;
  ~AsFloats() {
    if (back_.halves == nullptr) return;
    for (int64_t r = 0; r < back_.rows; ++r) {
      RoundToBf16(Row(static_cast<const float*>(view_.data), view_, r), back_.halves + r * back_.stride);
    }
  }

  operator Matrix() const { return view_; }
  operator ConstMatrix() const { return view_; }

 private:
  template <class T, class View>
  static absl::Span<T> Row(T* begin, const View& m, int64_t r) {
    return {begin + r * m.stride, static_cast<size_t>(m.cols)};
  }

  std::vector<float> floats_;
  Matrix view_;
  CudaMatrix back_;
};

template <class Operation>
cudaError_t OnHost(cudaStream_t stream, Operation operation) {
  return LaunchOnStandIn(stream, [operation] { CHECK(operation(Host()).ok()); });
}

// Of none of them: none.
Matrix Row(Matrix m, int64_t r) { return m.rows == 0 ? Matrix() : Matrix(m.row(r), 1, m.cols); }
absl::Span<const float> Vector(const float* data, int64_t size) { return {data, static_cast<size_t>(size)}; }

}  // namespace

cudaError_t CudaAddBias(cudaStream_t stream, const float* bias, CudaMatrix x) {
  return OnHost(stream, [=](Backend& b) { return b.AddBias(Vector(bias, x.cols), AsFloats(x)); });
}
cudaError_t CudaAddBiasActivate(cudaStream_t stream, const float* bias, ActivationFunction f, CudaMatrix x) {
  return OnHost(stream, [=](Backend& b) { return b.AddBiasActivate(Vector(bias, x.cols), f, AsFloats(x)); });
}
cudaError_t CudaSumRows(cudaStream_t stream, CudaConstMatrix x, float beta, float* sums) {
  return OnHost(stream, [=](Backend& b) { return b.SumRows(AsFloats(x), beta, {sums, static_cast<size_t>(x.cols)}); });
}
cudaError_t CudaActivate(cudaStream_t stream, ActivationFunction f, CudaConstMatrix x, CudaMatrix y) {
  return OnHost(stream, [=](Backend& b) { return b.Activate(f, AsFloats(x), AsFloats(y)); });
}
cudaError_t CudaActivateBackward(cudaStream_t stream, ActivationFunction f, CudaConstMatrix y, CudaConstMatrix dy,
                                 CudaMatrix dx) {
  return OnHost(stream, [=](Backend& b) { return b.ActivateBackward(f, AsFloats(y), AsFloats(dy), AsFloats(dx)); });
}
cudaError_t CudaDropout(cudaStream_t stream, DropoutMask mask, CudaConstMatrix x, CudaMatrix y) {
  return OnHost(stream, [=](Backend& b) { return b.Dropout(mask, AsFloats(x), AsFloats(y)); });
}
cudaError_t CudaWidenBytes(cudaStream_t stream, ConstByteMatrix bytes, float divisor, CudaMatrix to) {
  return OnHost(stream, [=](Backend& b) { return b.WidenBytes(bytes, divisor, AsFloats(to)); });
}
cudaError_t CudaCopy(cudaStream_t stream, CudaConstMatrix from, CudaMatrix to) {
  return OnHost(stream, [=](Backend& b) { return b.Copy(AsFloats(from), AsFloats(to)); });
}
cudaError_t CudaAccumulate(cudaStream_t stream, CudaConstMatrix from, CudaMatrix to) {
  return OnHost(stream, [=](Backend& b) { return b.Accumulate(AsFloats(from), AsFloats(to)); });
}

cudaError_t CudaSoftmaxCrossEntropy(cudaStream_t stream, CudaConstMatrix logits, const int32_t* labels,
                                    int64_t examples, CudaMatrix d_logits, double* row_losses) {
  return LaunchOnStandIn(stream, [=] {
    const AsFloats all(logits), gradients(d_logits);
    for (int64_t r = 0; r < logits.rows; ++r) {
      BatchTotals totals;
      CHECK(Host().SoftmaxCrossEntropy(Row(all, r), {labels + r, 1}, examples, Row(gradients, r), &totals).ok());
      row_losses[r] = totals.loss;
    }
  });
}
cudaError_t CudaMeanSquaredError(cudaStream_t stream, CudaConstMatrix outputs, CudaConstMatrix targets,
                                 int64_t examples, CudaMatrix d_outputs, double* row_losses) {
  return LaunchOnStandIn(stream, [=] {
    const AsFloats all(outputs), wanted(targets), gradients(d_outputs);
    for (int64_t r = 0; r < outputs.rows; ++r) {
      BatchTotals totals;
      const absl::Status status =
          Host().MeanSquaredError(Row(all, r), Row(wanted, r), examples, Row(gradients, r), &totals);
      CHECK(status.ok());
      row_losses[r] = totals.loss;
    }
  });
}
cudaError_t CudaAddLosses(cudaStream_t stream, const double* row_losses, int64_t rows, BatchTotals* totals) {
  return LaunchOnStandIn(stream, [=] {
    for (int64_t r = 0; r < rows; ++r) totals->loss += row_losses[r];
  });
}
cudaError_t CudaCountCorrect(cudaStream_t stream, CudaConstMatrix outputs, const int32_t* labels, BatchTotals* totals) {
  return OnHost(stream, [=](Backend& b) {
    return b.CountCorrect(AsFloats(outputs), {labels, static_cast<size_t>(outputs.rows)}, totals);
  });
}

}  // namespace downpour
