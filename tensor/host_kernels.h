// The host backend's elementwise work, compiled for every CPU target and chosen at run time.
//
// Shapes: as in backend.h, checked by the caller.
// Order: reductions follow the CPU's vector width, so their last bits differ between CPUs; the dropout mask does not.
#pragma once

#include <cstdint>

#include "tensor/backend.h"
#include "tensor/matrix_view.h"

namespace downpour {

void HostAddBias(const float* bias, Matrix x);
void HostSumRows(ConstMatrix x, float beta, float* sums);
void HostActivate(ActivationFunction f, ConstMatrix x, Matrix y);
void HostActivateBackward(ActivationFunction f, ConstMatrix y, ConstMatrix dy, Matrix dx);
void HostDropout(DropoutMask mask, ConstMatrix x, Matrix y);
void HostWidenBytes(ConstByteMatrix bytes, float divisor, Matrix to);
void HostAccumulate(ConstMatrix from, Matrix to);
void HostMultiply(ConstMatrix a, ConstMatrix b, float beta, Matrix y);
void HostPairDots(ConstMatrix x, int64_t n, Matrix y);
void HostPairDotsBackward(ConstMatrix x, int64_t n, ConstMatrix dy, float beta, Matrix dx);
// They return the sum over rows of the loss.
double HostSoftmaxCrossEntropy(ConstMatrix logits, const int32_t* labels, WeightedMean mean, Matrix d_logits);
double HostMeanSquaredError(ConstMatrix outputs, ConstMatrix targets, WeightedMean mean, Matrix d_outputs);
double HostSigmoidCrossEntropy(ConstMatrix logits, ConstMatrix targets, WeightedMean mean, Matrix d_logits);

}  // namespace downpour
