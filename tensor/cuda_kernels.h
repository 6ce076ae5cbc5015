// The CUDA backend's own kernels, as launches on a stream.
//
// Shapes: as in backend.h, checked by the caller; all addresses are the device's. Matrices may be of either storage,
//   and of different ones; what is computed is rounded only where it is written.
// Order: each sum adds in an order that follows from the shapes alone, so the same call gives the same bits on one GPU.
// Errors: what the launch reports. What the kernel itself does wrong shows at the stream's next synchronisation.
// Tests: tests/parity, which also runs these kernels on the host (cuda_stand_in_device.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/cuda_matrix.h"
#include "tensor/matrix_view.h"
#include "tensor/operands.h"

namespace downpour {

cudaError_t CudaAddBias(cudaStream_t stream, const float* bias, CudaMatrix x);
cudaError_t CudaAddBiasActivate(cudaStream_t stream, const float* bias, ActivationFunction f, CudaMatrix x);
cudaError_t CudaSumRows(cudaStream_t stream, CudaConstMatrix x, float beta, float* sums);
cudaError_t CudaActivate(cudaStream_t stream, ActivationFunction f, CudaConstMatrix x, CudaMatrix y);
cudaError_t CudaActivateBackward(cudaStream_t stream, ActivationFunction f, CudaConstMatrix y, CudaConstMatrix dy,
                                 CudaMatrix dx);
cudaError_t CudaDropout(cudaStream_t stream, DropoutMask mask, CudaConstMatrix x, CudaMatrix y);
cudaError_t CudaWidenBytes(cudaStream_t stream, ConstByteMatrix bytes, float divisor, CudaMatrix to);
cudaError_t CudaCopy(cudaStream_t stream, CudaConstMatrix from, CudaMatrix to);
cudaError_t CudaAccumulate(cudaStream_t stream, CudaConstMatrix from, CudaMatrix to);
cudaError_t CudaMultiply(cudaStream_t stream, CudaConstMatrix a, CudaConstMatrix b, float beta, CudaMatrix y);
cudaError_t CudaPairDots(cudaStream_t stream, CudaConstMatrix x, int64_t n, CudaMatrix y);
cudaError_t CudaPairDotsBackward(cudaStream_t stream, CudaConstMatrix x, int64_t n, CudaConstMatrix dy, float beta,
                                 CudaMatrix dx);

// row_losses: one number per row, to be summed by CudaAddLosses.
cudaError_t CudaSoftmaxCrossEntropy(cudaStream_t stream, CudaConstMatrix logits, const int32_t* labels,
                                    WeightedMean mean, CudaMatrix d_logits, double* row_losses);
cudaError_t CudaMeanSquaredError(cudaStream_t stream, CudaConstMatrix outputs, CudaConstMatrix targets,
                                 WeightedMean mean, CudaMatrix d_outputs, double* row_losses);
cudaError_t CudaSigmoidCrossEntropy(cudaStream_t stream, CudaConstMatrix logits, CudaConstMatrix targets,
                                    WeightedMean mean, CudaMatrix d_logits, double* row_losses);
cudaError_t CudaAddLosses(cudaStream_t stream, const double* row_losses, int64_t rows, BatchTotals* totals);
cudaError_t CudaCountCorrect(cudaStream_t stream, CudaConstMatrix outputs, const int32_t* labels, BatchTotals* totals);

}  // namespace downpour
