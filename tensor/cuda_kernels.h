// The CUDA backend's own kernels, as launches on a stream.
//
// Shapes: as in backend.h, checked by the caller; all addresses are the device's.
// Order: each sum adds in an order that follows from the shapes alone, so the same call gives the same bits on one GPU.
// Errors: what the launch reports. What the kernel itself does wrong shows at the stream's next synchronisation.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tensor/operands.h"
#include "tensor/view.h"

namespace downpour {

cudaError_t CudaAddBias(cudaStream_t stream, const float* bias, Matrix x);
cudaError_t CudaAddBiasActivate(cudaStream_t stream, const float* bias, ActivationFunction f, Matrix x);
cudaError_t CudaSumRows(cudaStream_t stream, ConstMatrix x, float beta, float* sums);
cudaError_t CudaActivate(cudaStream_t stream, ActivationFunction f, ConstMatrix x, Matrix y);
cudaError_t CudaActivateBackward(cudaStream_t stream, ActivationFunction f, ConstMatrix y, ConstMatrix dy, Matrix dx);
cudaError_t CudaDropout(cudaStream_t stream, DropoutMask mask, ConstMatrix x, Matrix y);
cudaError_t CudaCopy(cudaStream_t stream, ConstMatrix from, Matrix to);
cudaError_t CudaAccumulate(cudaStream_t stream, ConstMatrix from, Matrix to);

// row_losses: one number per row, to be summed by CudaAddLosses.
cudaError_t CudaSoftmaxCrossEntropy(cudaStream_t stream, ConstMatrix logits, const int32_t* labels, int64_t examples,
                                    Matrix d_logits, double* row_losses);
cudaError_t CudaMeanSquaredError(cudaStream_t stream, ConstMatrix outputs, ConstMatrix targets, int64_t examples,
                                 Matrix d_outputs, double* row_losses);
cudaError_t CudaAddLosses(cudaStream_t stream, const double* row_losses, int64_t rows, BatchTotals* totals);
cudaError_t CudaCountCorrect(cudaStream_t stream, ConstMatrix outputs, const int32_t* labels, BatchTotals* totals);

// to[i] = from[i] rounded to bfloat16, the nearest, ties to even. Both begin at a multiple of 16 bytes.
cudaError_t CudaRoundToBf16(cudaStream_t stream, const float* from, size_t count, void* to);

}  // namespace downpour
