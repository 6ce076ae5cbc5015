// Elements of matrices of either storage; and elementwise kernels from a function of floats: y = f(in...), in place or
// not.
//
// Cost: which storage it is, is asked at each access, of no account beside the access itself. Where all matrices are
//   without gaps and aligned, a thread takes four elements at once, some fours before it has the first, else one.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "tensor/cuda_matrix.h"

namespace downpour {

constexpr int kMapThreads = 256;
constexpr int64_t kMostBlocks = 4096;  // some waves on every chip; each thread strides over the rest
constexpr int64_t kAtOnce = 4;  // fours that a thread reads before it needs the first: one, of bfloat16, is too little
                                // under way to keep the memory busy

inline unsigned BlocksFor(int64_t items, int64_t per_block) {
  return static_cast<unsigned>(std::clamp<int64_t>((items + per_block - 1) / per_block, 1, kMostBlocks));
}

__device__ inline int64_t ThreadIndex() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t ThreadCount() { return int64_t{gridDim.x} * blockDim.x; }

__device__ inline float Widened(float x) { return x; }
__device__ inline float Widened(Bf16 x) { return __uint_as_float(uint32_t{x.bits} << 16); }

// The i-th element of the memory that begins with the matrix.
template <class View>
__device__ float At(const View& m, int64_t i) {
  return m.halves != nullptr ? Widened(m.halves[i]) : m.floats[i];
}
__device__ inline void Put(const CudaMatrix& m, int64_t i, float x) {
  if (m.halves != nullptr) {
    m.halves[i].bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
  } else {
    m.floats[i] = x;
  }
}

// Likewise the i-th four.
template <class View>
__device__ float4 FourAt(const View& m, int64_t i) {
  if (m.halves == nullptr) return reinterpret_cast<const float4*>(m.floats)[i];
  const uint2 pairs = reinterpret_cast<const uint2*>(m.halves)[i];
  return make_float4(__uint_as_float(pairs.x << 16), __uint_as_float(pairs.x & 0xffff0000u),
                     __uint_as_float(pairs.y << 16), __uint_as_float(pairs.y & 0xffff0000u));
}
__device__ inline uint32_t RoundedPair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}
__device__ inline void PutFour(const CudaMatrix& m, int64_t i, float4 v) {
  if (m.halves != nullptr) {
    reinterpret_cast<uint2*>(m.halves)[i] = make_uint2(RoundedPair(v.x, v.y), RoundedPair(v.z, v.w));
  } else {
    reinterpret_cast<float4*>(m.floats)[i] = v;
  }
}
// Bytes as floats: to be read only.
__device__ inline float At(const ConstByteMatrix& m, int64_t i) { return m.data[i]; }
__device__ inline float4 FourAt(const ConstByteMatrix& m, int64_t i) {
  const uchar4 four = reinterpret_cast<const uchar4*>(m.data)[i];
  return make_float4(four.x, four.y, four.z, four.w);
}

inline bool BeginsWithFour(const ConstByteMatrix& m) {
  return reinterpret_cast<uintptr_t>(m.data) % sizeof(uchar4) == 0;
}
template <class View>
bool BeginsWithFour(const View& m) {
  return reinterpret_cast<uintptr_t>(m.data()) % (m.halves != nullptr ? sizeof(uint2) : sizeof(float4)) == 0;
}

template <class F, class... In>
__global__ void MapFlat(int64_t elements, F f, CudaMatrix y, In... in) {
  const auto four = [&](const auto... v) { return make_float4(f(v.x...), f(v.y...), f(v.z...), f(v.w...)); };
  const int64_t fours = elements / 4, step = ThreadCount();
  int64_t at = ThreadIndex();
  for (; at + (kAtOnce - 1) * step < fours; at += kAtOnce * step) {
    float4 results[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) results[k] = four(FourAt(in, at + k * step)...);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) PutFour(y, at + k * step, results[k]);
  }
  for (; at < fours; at += step) PutFour(y, at, four(FourAt(in, at)...));
  for (int64_t i = 4 * fours + ThreadIndex(); i < elements; i += ThreadCount()) Put(y, i, f(At(in, i)...));
}

template <class F, class... In>
__global__ void MapRows(F f, CudaMatrix y, In... in) {
  for (int64_t r = blockIdx.y; r < y.rows; r += gridDim.y) {
    for (int64_t c = ThreadIndex(); c < y.cols; c += ThreadCount()) {
      Put(y, r * y.stride + c, f(At(in, r * in.stride + c)...));
    }
  }
}

template <class F, class... In>
cudaError_t Map(cudaStream_t stream, F f, CudaMatrix y, In... in) {
  if (y.contiguous() && BeginsWithFour(y) && ((in.contiguous() && BeginsWithFour(in)) && ...)) {
    MapFlat<<<BlocksFor(y.elements(), 4 * kAtOnce * kMapThreads), kMapThreads, 0, stream>>>(y.elements(), f, y, in...);
  } else {
    const unsigned across = BlocksFor(y.cols, kMapThreads);
    const dim3 blocks(across, static_cast<unsigned>(std::clamp<int64_t>(y.rows, 1, kMostBlocks / across)));
    MapRows<<<blocks, kMapThreads, 0, stream>>>(f, y, in...);
  }
  return cudaGetLastError();
}

}  // namespace downpour
