#include "tensor/host_backend.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tensor/apply_kernels.h"
#include "tensor/host_kernels.h"

namespace downpour {
namespace {

constexpr size_t kAlignment = 64;

bool Correct(const float* row, int64_t cols, int32_t label) {
  if (cols == 1) return std::fabs(row[0] - static_cast<float>(label)) < 0.5f;
  int64_t best = 0;
  for (int64_t c = 0; c < cols; ++c) {
    if (std::isnan(row[c])) return false;
    if (row[c] > row[best]) best = c;
  }
  return best == label;
}

class HostBackend final : public Backend {
 public:
  explicit HostBackend(const HostBackendOptions& options) : gemm_threads_(options.gemm_threads) {}

  std::string name() const override {
    const dnnl_version_t* version = dnnl_version();
    return absl::StrCat("cpu (oneDNN ", version->major, ".", version->minor, ".", version->patch, ", ", CpuTargetName(),
                        ")");
  }
  bool memory_is_host() const override { return true; }
  bool rounds_products() const override { return false; }

  absl::Status Upload(const void* host, size_t bytes, void* to) override {
    if (bytes > 0) std::memcpy(to, host, bytes);
    return absl::OkStatus();
  }
  absl::Status Download(const void* from, size_t bytes, void* host) override { return Upload(from, bytes, host); }
  absl::Status Synchronize() override { return absl::OkStatus(); }

  absl::StatusOr<std::shared_ptr<void>> AllocateHost(size_t bytes) override {
    auto memory = DoAllocate(bytes, FloatFormat::kFp32);
    if (!memory.ok()) return memory.status();
    return std::shared_ptr<void>(*memory, std::free);
  }
  absl::Status BeginUpload(const void* host, size_t bytes, void* to) override { return Upload(host, bytes, to); }
  absl::Status BeginDownload(const void* from, size_t bytes, void* host) override {
    return Download(from, bytes, host);
  }
  absl::Status AwaitDownload() override { return absl::OkStatus(); }

 private:
  absl::StatusOr<void*> DoAllocate(size_t bytes, FloatFormat) override {
    void* memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (memory == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes"));
    return memory;
  }
  void DoFree(void* data) override { std::free(data); }

  absl::Status DoGemm(Transpose op_a, Transpose op_b, ConstMatrix a, ConstMatrix b, float beta, Matrix c) override {
    const bool plain_a = op_a == Transpose::kPlain;
    const bool plain_b = op_b == Transpose::kPlain;
    omp_set_num_threads(gemm_threads_);  // a setting of the calling thread
    const dnnl_status_t status =
        dnnl_sgemm(plain_a ? 'N' : 'T', plain_b ? 'N' : 'T', c.rows, c.cols, plain_a ? a.cols : a.rows, 1.0f, a.data,
                   a.stride, b.data, b.stride, beta, c.data, c.stride);
    if (status == dnnl_success) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("oneDNN's sgemm answered ", static_cast<int>(status)));
  }
  absl::Status DoAddBias(const float* bias, Matrix x) override {
    HostAddBias(bias, x);
    return absl::OkStatus();
  }
  absl::Status DoAddBiasActivate(const float* bias, ActivationFunction f, Matrix x) override {
    HostAddBias(bias, x);
    HostActivate(f, x, x);
    return absl::OkStatus();
  }
  absl::Status DoSumRows(ConstMatrix x, float beta, float* sums) override {
    HostSumRows(x, beta, sums);
    return absl::OkStatus();
  }
  absl::Status DoActivate(ActivationFunction f, ConstMatrix x, Matrix y) override {
    HostActivate(f, x, y);
    return absl::OkStatus();
  }
  absl::Status DoActivateBackward(ActivationFunction f, ConstMatrix y, ConstMatrix dy, Matrix dx) override {
    HostActivateBackward(f, y, dy, dx);
    return absl::OkStatus();
  }
  absl::Status DoDropout(DropoutMask mask, ConstMatrix x, Matrix y) override {
    HostDropout(mask, x, y);
    return absl::OkStatus();
  }
  absl::Status DoWidenBytes(ConstByteMatrix bytes, float divisor, Matrix to) override {
    HostWidenBytes(bytes, divisor, to);
    return absl::OkStatus();
  }
  absl::Status DoCopy(ConstMatrix from, Matrix to) override {
    for (int64_t r = 0; r < to.rows; ++r) std::memcpy(to.row(r), from.row(r), static_cast<size_t>(to.cols) * 4);
    return absl::OkStatus();
  }
  absl::Status DoAccumulate(ConstMatrix from, Matrix to) override {
    HostAccumulate(from, to);
    return absl::OkStatus();
  }
  absl::Status DoMultiply(ConstMatrix a, ConstMatrix b, float beta, Matrix y) override {
    HostMultiply(a, b, beta, y);
    return absl::OkStatus();
  }
  absl::Status DoPairDots(ConstMatrix x, int64_t n, Matrix y) override {
    HostPairDots(x, n, y);
    return absl::OkStatus();
  }
  absl::Status DoPairDotsBackward(ConstMatrix x, int64_t n, ConstMatrix dy, float beta, Matrix dx) override {
    HostPairDotsBackward(x, n, dy, beta, dx);
    return absl::OkStatus();
  }
  absl::Status DoSoftmaxCrossEntropy(ConstMatrix logits, const int32_t* labels, WeightedMean mean, Matrix d_logits,
                                     BatchTotals* totals) override {
    totals->loss += HostSoftmaxCrossEntropy(logits, labels, mean, d_logits);
    return absl::OkStatus();
  }
  absl::Status DoSigmoidCrossEntropy(ConstMatrix logits, ConstMatrix targets, WeightedMean mean, Matrix d_logits,
                                     BatchTotals* totals) override {
    totals->loss += HostSigmoidCrossEntropy(logits, targets, mean, d_logits);
    return absl::OkStatus();
  }
  absl::Status DoMeanSquaredError(ConstMatrix outputs, ConstMatrix targets, WeightedMean mean, Matrix d_outputs,
                                  BatchTotals* totals) override {
    totals->loss += HostMeanSquaredError(outputs, targets, mean, d_outputs);
    return absl::OkStatus();
  }
  absl::Status DoCountCorrect(ConstMatrix outputs, const int32_t* labels, BatchTotals* totals) override {
    for (int64_t r = 0; r < outputs.rows; ++r) totals->correct += Correct(outputs.row(r), outputs.cols, labels[r]);
    return absl::OkStatus();
  }

  int gemm_threads_;
};

}  // namespace

std::unique_ptr<Backend> MakeHostBackend(const HostBackendOptions& options) {
  return std::make_unique<HostBackend>(options);
}

}  // namespace downpour
