// Elementwise kernels from a function of floats: y = f(in...), in place or not.
//
// Cost: where all matrices are without gaps and aligned, accesses of 16 bytes per thread; else one element at a time.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "tensor/view.h"

namespace downpour {

constexpr int kMapThreads = 256;
constexpr int64_t kMostBlocks = 4096;  // some waves on every chip; each thread strides over the rest

inline unsigned BlocksFor(int64_t items, int64_t per_block) {
  return static_cast<unsigned>(std::clamp<int64_t>((items + per_block - 1) / per_block, 1, kMostBlocks));
}

__device__ inline int64_t ThreadIndex() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t ThreadCount() { return int64_t{gridDim.x} * blockDim.x; }

template <class F, class... In>
__global__ void MapFlat(int64_t elements, F f, float* y, In... in) {
  const int64_t quads = elements / 4;
  for (int64_t i = ThreadIndex(); i < quads; i += ThreadCount()) {
    const auto four = [&](const auto... v) { return make_float4(f(v.x...), f(v.y...), f(v.z...), f(v.w...)); };
    reinterpret_cast<float4*>(y)[i] = four(reinterpret_cast<const float4*>(in)[i]...);
  }
  for (int64_t i = 4 * quads + ThreadIndex(); i < elements; i += ThreadCount()) y[i] = f(in[i]...);
}

template <class F, class... In>
__global__ void MapRows(F f, Matrix y, In... in) {
  for (int64_t r = blockIdx.y; r < y.rows; r += gridDim.y) {
    for (int64_t c = ThreadIndex(); c < y.cols; c += ThreadCount()) y.row(r)[c] = f(in.row(r)[c]...);
  }
}

inline bool Aligned16(const float* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

template <class F, class... In>
cudaError_t Map(cudaStream_t stream, F f, Matrix y, In... in) {
  if (y.contiguous() && Aligned16(y.data) && ((in.contiguous() && Aligned16(in.data)) && ...)) {
    MapFlat<<<BlocksFor(y.elements(), 4 * kMapThreads), kMapThreads, 0, stream>>>(y.elements(), f, y.data, in.data...);
  } else {
    const unsigned across = BlocksFor(y.cols, kMapThreads);
    const dim3 blocks(across, static_cast<unsigned>(std::clamp<int64_t>(y.rows, 1, kMostBlocks / across)));
    MapRows<<<blocks, kMapThreads, 0, stream>>>(f, y, in...);
  }
  return cudaGetLastError();
}

}  // namespace downpour
