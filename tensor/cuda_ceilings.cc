#include "tensor/cuda_ceilings.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "tensor/apply_kernels.h"
#include "tensor/cuda_memory.h"
#include "tensor/cuda_status.h"

namespace downpour {
namespace {

constexpr int kWarmUps = 3;

absl::StatusOr<double> MedianSeconds(cudaStream_t stream, int runs, const std::function<absl::Status()>& run) {
  auto begin = MakeCudaEvent(cudaEventDefault), end = MakeCudaEvent(cudaEventDefault);
  if (!begin.ok() || !end.ok()) return begin.ok() ? end.status() : begin.status();
  std::vector<float> milliseconds;
  for (int i = -kWarmUps; i < std::max(runs, 1); ++i) {
    CUDA_TRY(cudaEventRecord(begin->get(), stream));
    if (absl::Status status = run(); !status.ok()) return status;
    CUDA_TRY(cudaEventRecord(end->get(), stream));
    CUDA_TRY(cudaEventSynchronize(end->get()));
    float taken = 0;
    CUDA_TRY(cudaEventElapsedTime(&taken, begin->get(), end->get()));
    if (i >= 0) milliseconds.push_back(taken);
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  return 1e-3 * double{milliseconds[milliseconds.size() / 2]};
}

// `count` numbers in [-1, 1) on the device, as products of that precision read them.
absl::StatusOr<CudaMemory> RandomFactor(size_t count, Precision precision) {
  std::vector<float> numbers(count);
  uint32_t state = 1;
  for (float& number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  const bool rounded = precision == Precision::kBf16;
  std::vector<Bf16> halves(rounded ? count : 0);
  if (rounded) RoundToBf16(numbers, halves.data());
  const size_t bytes = count * (rounded ? sizeof(Bf16) : sizeof(float));
  auto memory = MakeCudaMemory(bytes);
  if (!memory.ok()) return memory.status();
  const void* const from = rounded ? static_cast<const void*>(halves.data()) : numbers.data();
  CUDA_TRY(cudaMemcpy(memory->get(), from, bytes, cudaMemcpyHostToDevice));
  return memory;
}

}  // namespace

absl::StatusOr<double> TimeCudaProduct(int device, Precision precision, const ProductShape& shape, int runs) {
  CUDA_TRY(cudaSetDevice(device));
  auto stream = MakeCudaStream();
  if (!stream.ok()) return stream.status();
  auto a = RandomFactor(static_cast<size_t>(shape.m * shape.k), precision);
  auto b = RandomFactor(static_cast<size_t>(shape.k * shape.n), precision);
  auto c = MakeCudaMemory(static_cast<size_t>(shape.m * shape.n) * sizeof(float));
  auto cublas = MakeCublas(*stream);
  for (const absl::Status& status : {a.status(), b.status(), c.status(), cublas.status()}) {
    if (!status.ok()) return status;
  }
  const cudaDataType type = precision == Precision::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
  const cublasComputeType_t sums = precision == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const bool plain_a = shape.op_a == Transpose::kPlain, plain_b = shape.op_b == Transpose::kPlain;
  const float alpha = 1, beta = 0;
  return MedianSeconds(stream->get(), runs, [&]() -> absl::Status {
    // Columns first, as in the backend: c' = op(b)' op(a)'.
    CUDA_TRY(cublasGemmEx_64(cublas->get(), plain_b ? CUBLAS_OP_N : CUBLAS_OP_T, plain_a ? CUBLAS_OP_N : CUBLAS_OP_T,
                             shape.n, shape.m, shape.k, &alpha, b->get(), type, plain_b ? shape.n : shape.k, a->get(),
                             type, plain_a ? shape.k : shape.m, &beta, c->get(), type, shape.n, sums,
                             CUBLAS_GEMM_DEFAULT));
    return absl::OkStatus();
  });
}

absl::StatusOr<double> TimeCudaCopy(int device, CopyPath path, size_t bytes, int runs) {
  CUDA_TRY(cudaSetDevice(device));
  auto stream = MakeCudaStream();
  auto memory = MakeCudaMemory(bytes), other = MakeCudaMemory(bytes);
  auto host = MakePinnedMemory(bytes);
  for (const absl::Status& status : {stream.status(), memory.status(), other.status(), host.status()}) {
    if (!status.ok()) return status;
  }
  const bool from_host = path == CopyPath::kToDevice, to_host = path == CopyPath::kToHost;
  const cudaMemcpyKind kind = from_host ? cudaMemcpyHostToDevice
                              : to_host ? cudaMemcpyDeviceToHost
                                        : cudaMemcpyDeviceToDevice;
  void* const to = to_host ? host->get() : memory->get();
  const void* const from = from_host ? host->get() : other->get();
  return MedianSeconds(stream->get(), runs, [&]() -> absl::Status {
    CUDA_TRY(cudaMemcpyAsync(to, from, bytes, kind, stream->get()));
    return absl::OkStatus();
  });
}

}  // namespace downpour
