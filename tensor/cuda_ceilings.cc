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

// After as many that warm up.
absl::StatusOr<double> MedianSeconds(cudaStream_t stream, int runs, const std::function<absl::Status()>& run) {
  auto begin = MakeCudaEvent(cudaEventDefault), end = MakeCudaEvent(cudaEventDefault);
  if (!begin.ok() || !end.ok()) return begin.ok() ? end.status() : begin.status();
  std::vector<float> milliseconds;
  for (int i = -runs; i < runs; ++i) {
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

// All of them read and write the same memory, of the largest.
absl::StatusOr<double> TimeCudaProducts(int device, Precision precision, absl::Span<const ProductShape> shapes,
                                        int runs) {
  CUDA_TRY(cudaSetDevice(device));
  auto stream = MakeCudaStream();
  if (!stream.ok()) return stream.status();
  int64_t most_a = 1, most_b = 1, most_c = 1;
  for (const ProductShape& shape : shapes) {
    most_a = std::max(most_a, shape.m * shape.k);
    most_b = std::max(most_b, shape.k * shape.n);
    most_c = std::max(most_c, shape.m * shape.n);
  }
  auto a = RandomFactor(static_cast<size_t>(most_a), precision);
  auto b = RandomFactor(static_cast<size_t>(most_b), precision);
  auto c = MakeCudaMemory(static_cast<size_t>(most_c) * sizeof(float));
  auto cublas = MakeCublas(*stream);
  for (const absl::Status& status : {a.status(), b.status(), c.status(), cublas.status()}) {
    if (!status.ok()) return status;
  }
  const cudaDataType type = precision == Precision::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
  const cublasComputeType_t sums = precision == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const float alpha = 1, beta = 0;
  return MedianSeconds(stream->get(), runs, [&]() -> absl::Status {
    for (const ProductShape& shape : shapes) {  // columns first, as in the backend: c' = op(b)' op(a)'
      const bool plain_a = shape.op_a == Transpose::kPlain, plain_b = shape.op_b == Transpose::kPlain;
      CUDA_TRY(cublasGemmEx_64(cublas->get(), plain_b ? CUBLAS_OP_N : CUBLAS_OP_T, plain_a ? CUBLAS_OP_N : CUBLAS_OP_T,
                               shape.n, shape.m, shape.k, &alpha, b->get(), type, plain_b ? shape.n : shape.k, a->get(),
                               type, plain_a ? shape.k : shape.m, &beta, c->get(), type, shape.n, sums,
                               CUBLAS_GEMM_DEFAULT));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<double> TimeCudaCopy(int device, CopyPath path, size_t bytes, int runs) {
  CUDA_TRY(cudaSetDevice(device));
  auto stream = MakeCudaStream();
  // What is not needed is not made: to pin memory takes long.
  const bool on_device = path == CopyPath::kOnDevice;
  auto memory = MakeCudaMemory(bytes), other = MakeCudaMemory(on_device ? bytes : 1);
  auto host = MakePinnedMemory(on_device ? 1 : bytes);
  for (const absl::Status& status : {stream.status(), memory.status(), other.status(), host.status()}) {
    if (!status.ok()) return status;
  }
  const bool from_host = path == CopyPath::kToDevice, to_host = path == CopyPath::kToHost;
  const cudaMemcpyKind kind = from_host ? cudaMemcpyHostToDevice
                              : to_host ? cudaMemcpyDeviceToHost
                                        : cudaMemcpyDeviceToDevice;
  void* const to = to_host ? host->get() : memory->get();
  const void* const from = from_host ? host->get() : on_device ? other->get() : memory->get();
  return MedianSeconds(stream->get(), runs, [&]() -> absl::Status {
    CUDA_TRY(cudaMemcpyAsync(to, from, bytes, kind, stream->get()));
    return absl::OkStatus();
  });
}

}  // namespace downpour
