// cuBLAS on the stand-in: what the backend asks of it, refused where it is not what the backend may ask.
#include <cublas_v2.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "tensor/apply_kernels.h"
#include "tests/parity/cuda_stand_in.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  const void* workspace = nullptr;
  unsigned math = CUBLAS_DEFAULT_MATH;
};

namespace {

cublasStatus_t OfCublas(cudaError_t error) {
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

// The device holds a matrix of `rows` x `cols` by columns.
bool Holds(const void* x, cudaDataType type, int64_t stride, int64_t rows, int64_t cols) {
  const int64_t elements = (cols - 1) * stride + rows;
  const size_t size = type == CUDA_R_16BF ? sizeof(downpour::Bf16) : sizeof(float);
  return downpour::StandInHolds(x, static_cast<size_t>(elements) * size, false);
}

// The factor op(x) of `rows` x `cols`, x by columns, as what multiplies it sees it; by rows.
std::vector<float> Factor(cublasOperation_t op, const void* x, cudaDataType type, int64_t stride, int64_t rows,
                          int64_t cols, bool tf32) {
  std::vector<float> factor;
  factor.reserve(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t at = op == CUBLAS_OP_N ? r + c * stride : c + r * stride;
      uint32_t bits = type == CUDA_R_16BF ? uint32_t{static_cast<const uint16_t*>(x)[at]} << 16
                                          : static_cast<const uint32_t*>(x)[at];
      if (tf32) bits &= ~uint32_t{0x1fff};
      factor.push_back(std::bit_cast<float>(bits));
    }
  }
  return factor;
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return OfCublas(downpour::EnterStandIn());
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  *version = CUBLAS_VERSION;
  return OfCublas(downpour::EnterStandIn());
}
const char* cublasGetStatusString(cublasStatus_t) { return "CUBLAS_STATUS_OfStandIn"; }
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  handle->workspace = nullptr;  // as documented
  return OfCublas(downpour::EnterStandIn());
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  if (!downpour::StandInHolds(workspace, bytes, false)) return CUBLAS_STATUS_INVALID_VALUE;
  handle->workspace = workspace;
  return OfCublas(downpour::EnterStandIn());
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->math = mode;
  return OfCublas(downpour::EnterStandIn());
}

// c of m x n by columns. Without a workspace of one's own the same product may have other bits another time.
cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m,
                               int64_t n, int64_t k, const void* alpha, const void* a, cudaDataType a_type, int64_t lda,
                               const void* b, cudaDataType b_type, int64_t ldb, const void* beta, void* c,
                               cudaDataType c_type, int64_t ldc, cublasComputeType_t sums, cublasGemmAlgo_t) {
  const bool fits = m > 0 && n > 0 && k > 0 && lda >= (op_a == CUBLAS_OP_N ? m : k) &&
                    ldb >= (op_b == CUBLAS_OP_N ? k : n) && ldc >= m;
  const bool tf32 = sums == CUBLAS_COMPUTE_32F_FAST_TF32 && a_type == CUDA_R_32F;
  const bool rounds = c_type == CUDA_R_16BF;
  const bool types = a_type == b_type && (c_type == CUDA_R_32F || (rounds && a_type == c_type)) &&
                     (tf32 || sums == CUBLAS_COMPUTE_32F) && (a_type == CUDA_R_32F || a_type == CUDA_R_16BF);
  const bool sums_all_bits = !rounds || (handle->math & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) != 0;
  const bool in_memory = Holds(a, a_type, lda, op_a == CUBLAS_OP_N ? m : k, op_a == CUBLAS_OP_N ? k : m) &&
                         Holds(b, b_type, ldb, op_b == CUBLAS_OP_N ? k : n, op_b == CUBLAS_OP_N ? n : k) &&
                         Holds(c, c_type, ldc, m, n);
  if (!fits || !types || !sums_all_bits || !in_memory || handle->workspace == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const float times = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
  const auto floats = static_cast<float*>(c);
  const auto halves = static_cast<downpour::Bf16*>(c);
  return OfCublas(downpour::LaunchOnStandIn(handle->stream, [=] {
    const std::vector<float> x = Factor(op_a, a, a_type, lda, m, k, tf32);
    const std::vector<float> y = Factor(op_b, b, b_type, ldb, k, n, tf32);
    std::vector<double> sums_of_row(static_cast<size_t>(n));
    for (int64_t i = 0; i < m; ++i) {
      std::fill(sums_of_row.begin(), sums_of_row.end(), 0.0);
      for (int64_t l = 0; l < k; ++l) {
        const double factor = x[i * k + l];
        for (int64_t j = 0; j < n; ++j) sums_of_row[j] += factor * double{y[l * n + j]};
      }
      for (int64_t j = 0; j < n; ++j) {
        const size_t at = static_cast<size_t>(i + j * ldc);
        float before = 0;
        if (keep != 0) rounds ? downpour::WidenBf16({halves + at, 1}, &before) : void(before = floats[at]);
        const float result = static_cast<float>(times * sums_of_row[j] + double{keep} * double{before});
        rounds ? downpour::RoundToBf16({&result, 1}, halves + at) : void(floats[at] = result);
      }
    }
  }));
}

}  // extern "C"
