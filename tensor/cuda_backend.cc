#include "tensor/cuda_backend.h"

#include <glog/logging.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/cuda_device.h"
#include "tensor/cuda_downloads.h"
#include "tensor/cuda_kernels.h"
#include "tensor/cuda_memory.h"
#include "tensor/cuda_recording.h"
#include "tensor/cuda_status.h"
#include "tensor/cuda_uploads.h"

namespace downpour {
namespace {

class CudaBackend final : public Backend {
 public:
  CudaBackend(int device, const CudaOptions& options) : device_(device), graphs_(options.graphs) {}
  ~CudaBackend() override;
  absl::Status Open();

  std::string name() const override { return name_; }
  bool memory_is_host() const override { return false; }
  bool rounds_products() const override { return true; }
  std::string pci_address() const override { return pci_address_; }
  std::optional<uint64_t> free_memory() const override;
  bool keeps_rounded(FloatFormat format) const override {
    return format == FloatFormat::kFactor && precision() == Precision::kBf16;
  }

  absl::Status Upload(const void* host, size_t bytes, void* to) override;
  absl::Status Download(const void* from, size_t bytes, void* host) override;
  absl::Status Synchronize() override;
  absl::StatusOr<std::shared_ptr<void>> AllocateHost(size_t bytes) override;
  absl::Status BeginUpload(const void* host, size_t bytes, void* to) override;
  absl::Status BeginDownload(const void* from, size_t bytes, void* host) override;
  absl::Status AwaitDownload() override;
  absl::Status Repeat(const std::function<absl::Status()>& give, std::unique_ptr<Recording>* recording) override;

 private:
  absl::StatusOr<void*> DoAllocate(size_t bytes, FloatFormat format) override;
  void DoFree(void* data) override;
  absl::Status DoGemm(Transpose op_a, Transpose op_b, ConstMatrix a, ConstMatrix b, float beta, Matrix c) override;
  absl::Status DoAddBias(const float* bias, Matrix x) override;
  absl::Status DoAddBiasActivate(const float* bias, ActivationFunction f, Matrix x) override;
  absl::Status DoSumRows(ConstMatrix x, float beta, float* sums) override;
  absl::Status DoActivate(ActivationFunction f, ConstMatrix x, Matrix y) override;
  absl::Status DoActivateBackward(ActivationFunction f, ConstMatrix y, ConstMatrix dy, Matrix dx) override;
  absl::Status DoDropout(DropoutMask mask, ConstMatrix x, Matrix y) override;
  absl::Status DoWidenBytes(ConstByteMatrix bytes, float divisor, Matrix to) override;
  absl::Status DoCopy(ConstMatrix from, Matrix to) override;
  absl::Status DoAccumulate(ConstMatrix from, Matrix to) override;
  absl::Status DoMultiply(ConstMatrix a, ConstMatrix b, float beta, Matrix y) override;
  absl::Status DoPairDots(ConstMatrix x, int64_t n, Matrix y) override;
  absl::Status DoPairDotsBackward(ConstMatrix x, int64_t n, ConstMatrix dy, float beta, Matrix dx) override;
  absl::Status DoSoftmaxCrossEntropy(ConstMatrix logits, const int32_t* labels, WeightedMean mean, Matrix d_logits,
                                     BatchTotals* totals) override;
  absl::Status DoMeanSquaredError(ConstMatrix outputs, ConstMatrix targets, WeightedMean mean, Matrix d_outputs,
                                  BatchTotals* totals) override;
  absl::Status DoSigmoidCrossEntropy(ConstMatrix logits, ConstMatrix targets, WeightedMean mean, Matrix d_logits,
                                     BatchTotals* totals) override;
  absl::Status DoCountCorrect(ConstMatrix outputs, const int32_t* labels, BatchTotals* totals) override;

  absl::Status Enter() const;
  // Before an operation: its operands' uploads have come. The others than matrices must not be rounded.
  absl::Status Use(std::initializer_list<const void*> matrices, std::initializer_list<const void*> others = {});
  absl::Status Replay(const std::function<absl::Status()>& give, CudaRecording& recording);
  absl::StatusOr<CudaRegion*> RegionForUpload(const void* to);
  template <typename T>
  CudaView<T> Stored(MatrixView<T> matrix);

  const int device_;
  std::string name_, pci_address_;
  CudaStream compute_;
  Cublas cublas_;
  CudaUploads uploads_;
  CudaRegions regions_;
  CudaScratch row_losses_;
  CudaDownloads downloads_;
  bool graphs_;
  CudaRecording* recording_ = nullptr;  // gets to know what the operations use
};

// ---- Opening --------------------------------------------------------------------------------------------------------

absl::Status CudaBackend::Open() {
  auto device = OpenCudaDevice(device_);
  if (!device.ok()) return device.status();
  pci_address_ = device->pci_address;
  auto stream = MakeCudaStream();
  if (!stream.ok()) return stream.status();
  compute_ = *std::move(stream);
  absl::Status status = uploads_.Open(compute_.get());
  if (status.ok()) status = downloads_.Open();
  if (!status.ok()) return status;

  auto cublas = MakeCublas(compute_);
  if (!cublas.ok()) return cublas.status();
  cublas_ = *std::move(cublas);
  int version = 0;
  CUDA_TRY(cublasGetVersion(cublas_.get(), &version));
  name_ = absl::StrCat(device->name, ", cuBLAS ", version / 10000, ".", version / 100 % 100, ")");
  return absl::OkStatus();
}

CudaBackend::~CudaBackend() {
  if (Enter().ok()) cudaDeviceSynchronize();  // nothing may still use what goes now
}

// The current device is a setting of each thread, which others change too. Whether it may be named within a capture is
// nowhere said.
absl::Status CudaBackend::Enter() const {
  int current = -1;
  CUDA_TRY(cudaGetDevice(&current));
  if (current != device_) CUDA_TRY(cudaSetDevice(device_));
  return absl::OkStatus();
}

// ---- Memory ---------------------------------------------------------------------------------------------------------

std::optional<uint64_t> CudaBackend::free_memory() const {
  size_t available = 0, total = 0;
  if (!Enter().ok() || cudaMemGetInfo(&available, &total) != cudaSuccess) return std::nullopt;
  return available;
}

absl::StatusOr<void*> CudaBackend::DoAllocate(size_t bytes, FloatFormat format) {
  if (absl::Status status = Enter(); !status.ok()) return status;
  auto memory = MakeCudaMemory(bytes);
  if (!memory.ok()) return memory.status();
  void* const address = memory->get();
  regions_.Add({.memory = *std::move(memory), .bytes = bytes, .rounded = keeps_rounded(format)});
  return address;
}

// cudaFree waits for the device, so whatever still uses the memory has ended before it goes.
void CudaBackend::DoFree(void* data) {
  if (Enter().ok()) regions_.Remove(data);
}

absl::StatusOr<std::shared_ptr<void>> CudaBackend::AllocateHost(size_t bytes) {
  if (absl::Status status = Enter(); !status.ok()) return status;
  auto memory = MakePinnedMemory(bytes);
  if (absl::IsResourceExhausted(memory.status())) return absl::UnavailableError(memory.status().message());
  return memory;
}

absl::Status CudaBackend::Use(std::initializer_list<const void*> matrices, std::initializer_list<const void*> others) {
  if (absl::Status status = Enter(); !status.ok()) return status;
  uploads_.BeginOperation();
  for (const auto* operands : {&matrices, &others}) {
    for (const void* address : *operands) {
      CudaRegion* region = regions_.Find(address);
      if (region == nullptr) continue;
      if (region->rounded && operands == &others) {
        return absl::InvalidArgumentError(
            "memory of rounded numbers where only a matrix may lie: allocate it as kFp32");
      }
      if (absl::Status status = uploads_.Use(*region); !status.ok()) return status;
      if (recording_ != nullptr) recording_->AddUse(region);
    }
  }
  return absl::OkStatus();
}

template <typename T>
CudaView<T> CudaBackend::Stored(MatrixView<T> matrix) {
  const CudaRegion* region = regions_.Find(matrix.data);
  if (region == nullptr || !region->rounded) return {matrix.data, nullptr, matrix.rows, matrix.cols, matrix.stride};
  return {nullptr, region->Halves(matrix.data), matrix.rows, matrix.cols, matrix.stride};
}

// ---- Transfers ------------------------------------------------------------------------------------------------------

absl::StatusOr<CudaRegion*> CudaBackend::RegionForUpload(const void* to) {
  if (absl::Status status = Enter(); !status.ok()) return status;
  CudaRegion* const region = regions_.Find(to);
  if (region == nullptr) return absl::InvalidArgumentError("an upload to memory that is not this backend's");
  return region;
}

absl::Status CudaBackend::Upload(const void* host, size_t bytes, void* to) {
  if (bytes == 0) return absl::OkStatus();
  const auto region = RegionForUpload(to);
  return region.ok() ? uploads_.Copy(host, bytes, to, **region) : region.status();
}

absl::Status CudaBackend::BeginUpload(const void* host, size_t bytes, void* to) {
  if (bytes == 0) return absl::OkStatus();
  const auto region = RegionForUpload(to);
  return region.ok() ? uploads_.CopyPinned(host, bytes, to, **region) : region.status();
}

absl::Status CudaBackend::Download(const void* from, size_t bytes, void* host) {
  if (absl::Status status = Use({}, {from}); !status.ok() || bytes == 0) return status;
  CUDA_TRY(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, compute_.get()));
  return absl::OkStatus();
}

absl::Status CudaBackend::Synchronize() {
  if (absl::Status status = Enter(); !status.ok()) return status;
  for (cudaStream_t stream : {uploads_.stream(), compute_.get(), downloads_.stream()}) {
    CUDA_TRY(cudaStreamSynchronize(stream));
  }
  return absl::OkStatus();
}

absl::Status CudaBackend::BeginDownload(const void* from, size_t bytes, void* host) {
  if (absl::Status status = Use({}, {from}); !status.ok()) return status;
  return downloads_.Begin(compute_.get(), from, bytes, host);
}

absl::Status CudaBackend::AwaitDownload() {
  if (absl::Status status = Enter(); !status.ok()) return status;
  return downloads_.Await();
}

// ---- Repeated operations --------------------------------------------------------------------------------------------

// The first time nothing is captured: libraries may load kernels and take memory then, which a capture does not allow.
absl::Status CudaBackend::Repeat(const std::function<absl::Status()>& give, std::unique_ptr<Recording>* recording) {
  if (!graphs_) return give();
  if (*recording == nullptr) {
    auto first = std::make_unique<CudaRecording>(compute_.get());
    recording_ = first.get();
    const absl::Status status = give();
    recording_ = nullptr;
    if (status.ok()) *recording = std::move(first);
    return status;
  }
  const absl::Status status = Replay(give, static_cast<CudaRecording&>(**recording));
  if (status.ok()) return status;
  graphs_ = false;
  LOG(WARNING) << name_ << " goes on without CUDA graphs: " << status.message();
  return give();
}

// Uploads are waited for, and uses noted, as if each operation were given: a graph knows of neither.
absl::Status CudaBackend::Replay(const std::function<absl::Status()>& give, CudaRecording& recording) {
  if (absl::Status status = Enter(); !status.ok()) return status;
  uploads_.BeginOperation();
  for (CudaRegion* region : recording.uses()) {
    if (absl::Status status = uploads_.Use(*region); !status.ok()) return status;
  }
  if (!recording.captured()) {
    if (absl::Status status = recording.Capture(give); !status.ok()) return status;
  }
  return recording.Launch();
}

// ---- Products -------------------------------------------------------------------------------------------------------

// cuBLAS reads columns first, where our rows are its columns: it computes c' = op(b)' op(a)'.
absl::Status CudaBackend::DoGemm(Transpose op_a, Transpose op_b, ConstMatrix a, ConstMatrix b, float beta, Matrix c) {
  if (absl::Status status = Use({a.data, b.data, c.data}); !status.ok()) return status;
  const CudaConstMatrix factor_a = Stored(a), factor_b = Stored(b);
  const CudaMatrix result = Stored(c);
  const bool rounded = factor_a.halves != nullptr;
  if (rounded != (factor_b.halves != nullptr) || (result.halves != nullptr && !rounded)) {
    return absl::InvalidArgumentError("a product's factors are of two storages, or only its result is rounded");
  }
  const auto operation = [](Transpose t) { return t == Transpose::kPlain ? CUBLAS_OP_N : CUBLAS_OP_T; };
  const auto type = [](const auto& matrix) { return matrix.halves != nullptr ? CUDA_R_16BF : CUDA_R_32F; };
  const int64_t inner = op_a == Transpose::kPlain ? a.cols : a.rows;
  const float alpha = 1;
  const cublasComputeType_t sums = precision() == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  void* const to = result.halves != nullptr ? static_cast<void*>(result.halves) : result.floats;
  CUDA_TRY(cublasGemmEx_64(cublas_.get(), operation(op_b), operation(op_a), c.cols, c.rows, inner, &alpha,
                           factor_b.data(), type(factor_b), b.stride, factor_a.data(), type(factor_a), a.stride, &beta,
                           to, type(result), c.stride, sums, CUBLAS_GEMM_DEFAULT));
  return absl::OkStatus();
}

// ---- The rest -------------------------------------------------------------------------------------------------------

absl::Status CudaBackend::DoAddBias(const float* bias, Matrix x) {
  if (absl::Status status = Use({x.data}, {bias}); !status.ok()) return status;
  CUDA_TRY(CudaAddBias(compute_.get(), bias, Stored(x)));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoAddBiasActivate(const float* bias, ActivationFunction f, Matrix x) {
  if (absl::Status status = Use({x.data}, {bias}); !status.ok()) return status;
  CUDA_TRY(CudaAddBiasActivate(compute_.get(), bias, f, Stored(x)));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoSumRows(ConstMatrix x, float beta, float* sums) {
  if (absl::Status status = Use({x.data}, {sums}); !status.ok()) return status;
  CUDA_TRY(CudaSumRows(compute_.get(), Stored(x), beta, sums));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoActivate(ActivationFunction f, ConstMatrix x, Matrix y) {
  if (absl::Status status = Use({x.data, y.data}); !status.ok()) return status;
  CUDA_TRY(CudaActivate(compute_.get(), f, Stored(x), Stored(y)));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoActivateBackward(ActivationFunction f, ConstMatrix y, ConstMatrix dy, Matrix dx) {
  if (absl::Status status = Use({y.data, dy.data, dx.data}); !status.ok()) return status;
  CUDA_TRY(CudaActivateBackward(compute_.get(), f, Stored(y), Stored(dy), Stored(dx)));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoDropout(DropoutMask mask, ConstMatrix x, Matrix y) {
  if (absl::Status status = Use({x.data, y.data}, {mask.seed}); !status.ok()) return status;
  CUDA_TRY(CudaDropout(compute_.get(), mask, Stored(x), Stored(y)));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoWidenBytes(ConstByteMatrix bytes, float divisor, Matrix to) {
  if (absl::Status status = Use({to.data}, {bytes.data}); !status.ok()) return status;
  CUDA_TRY(CudaWidenBytes(compute_.get(), bytes, divisor, Stored(to)));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoCopy(ConstMatrix from, Matrix to) {
  if (absl::Status status = Use({from.data, to.data}); !status.ok()) return status;
  CUDA_TRY(CudaCopy(compute_.get(), Stored(from), Stored(to)));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoAccumulate(ConstMatrix from, Matrix to) {
  if (absl::Status status = Use({from.data, to.data}); !status.ok()) return status;
  CUDA_TRY(CudaAccumulate(compute_.get(), Stored(from), Stored(to)));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoMultiply(ConstMatrix a, ConstMatrix b, float beta, Matrix y) {
  if (absl::Status status = Use({a.data, b.data, y.data}); !status.ok()) return status;
  CUDA_TRY(CudaMultiply(compute_.get(), Stored(a), Stored(b), beta, Stored(y)));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoPairDots(ConstMatrix x, int64_t n, Matrix y) {
  if (absl::Status status = Use({x.data, y.data}); !status.ok()) return status;
  CUDA_TRY(CudaPairDots(compute_.get(), Stored(x), n, Stored(y)));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoPairDotsBackward(ConstMatrix x, int64_t n, ConstMatrix dy, float beta, Matrix dx) {
  if (absl::Status status = Use({x.data, dy.data, dx.data}); !status.ok()) return status;
  CUDA_TRY(CudaPairDotsBackward(compute_.get(), Stored(x), n, Stored(dy), beta, Stored(dx)));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoSoftmaxCrossEntropy(ConstMatrix logits, const int32_t* labels, WeightedMean mean,
                                                Matrix d_logits, BatchTotals* totals) {
  if (absl::Status status = Use({logits.data, d_logits.data}, {labels, mean.weights, totals}); !status.ok())
    return status;
  const auto losses = row_losses_.Get(logits.rows);
  if (!losses.ok()) return losses.status();
  CUDA_TRY(CudaSoftmaxCrossEntropy(compute_.get(), Stored(logits), labels, mean, Stored(d_logits), *losses));
  CUDA_TRY(CudaAddLosses(compute_.get(), *losses, logits.rows, totals));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoMeanSquaredError(ConstMatrix outputs, ConstMatrix targets, WeightedMean mean,
                                             Matrix d_outputs, BatchTotals* totals) {
  if (absl::Status status = Use({outputs.data, targets.data, d_outputs.data}, {mean.weights, totals}); !status.ok())
    return status;
  const auto losses = row_losses_.Get(outputs.rows);
  if (!losses.ok()) return losses.status();
  CUDA_TRY(CudaMeanSquaredError(compute_.get(), Stored(outputs), Stored(targets), mean, Stored(d_outputs), *losses));
  CUDA_TRY(CudaAddLosses(compute_.get(), *losses, outputs.rows, totals));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoSigmoidCrossEntropy(ConstMatrix logits, ConstMatrix targets, WeightedMean mean,
                                                Matrix d_logits, BatchTotals* totals) {
  if (absl::Status status = Use({logits.data, targets.data, d_logits.data}, {mean.weights, totals}); !status.ok())
    return status;
  const auto losses = row_losses_.Get(logits.rows);
  if (!losses.ok()) return losses.status();
  CUDA_TRY(CudaSigmoidCrossEntropy(compute_.get(), Stored(logits), Stored(targets), mean, Stored(d_logits), *losses));
  CUDA_TRY(CudaAddLosses(compute_.get(), *losses, logits.rows, totals));
  return absl::OkStatus();
}

absl::Status CudaBackend::DoCountCorrect(ConstMatrix outputs, const int32_t* labels, BatchTotals* totals) {
  if (absl::Status status = Use({outputs.data}, {labels, totals}); !status.ok()) return status;
  CUDA_TRY(CudaCountCorrect(compute_.get(), Stored(outputs), labels, totals));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int device, const CudaOptions& options) {
  auto backend = std::make_unique<CudaBackend>(device, options);
  if (absl::Status status = backend->Open(); !status.ok()) return status;
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace downpour
