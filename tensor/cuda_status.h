// What CUDA and cuBLAS answer, as a Status that names statement, file and line.
//
//   CUDA_TRY(cudaStreamSynchronize(stream));   // returns from the function unless it succeeded
//
// Errors: RESOURCE_EXHAUSTED for memory, INTERNAL for everything else. A GPU that is lost answers so to every statement
//   from then on: there is nothing to do but to end the process.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace downpour {

inline absl::Status CudaStatus(cudaError_t error, const char* statement, const char* file, int line) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // one that is not for good is not to be told twice
  const bool memory = error == cudaErrorMemoryAllocation;
  return absl::Status(memory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
                      absl::StrCat(cudaGetErrorName(error), " (", cudaGetErrorString(error), ") from ", statement, ", ",
                                   file, ":", line));
}

inline absl::Status CudaStatus(cublasStatus_t error, const char* statement, const char* file, int line) {
  if (error == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const bool memory = error == CUBLAS_STATUS_ALLOC_FAILED;
  return absl::Status(memory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
                      absl::StrCat(cublasGetStatusString(error), " from ", statement, ", ", file, ":", line));
}

#define CUDA_TRY(statement)                                                                             \
  do {                                                                                                  \
    absl::Status cuda_try_status = ::downpour::CudaStatus((statement), #statement, __FILE__, __LINE__); \
    if (!cuda_try_status.ok()) return cuda_try_status;                                                  \
  } while (false)

}  // namespace downpour
