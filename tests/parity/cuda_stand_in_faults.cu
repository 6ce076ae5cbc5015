#include <cuda_runtime.h>

#include "tests/parity/cuda_stand_in_faults.h"

namespace downpour {
namespace {

constexpr unsigned kWholeWarp = 0xffffffffu;

// Adds to each number the one that lies as far from the other end of its block, which comes through memory of the
// block; then exchanges all of them there and back within warps.
__global__ void Faulty(KernelFault fault, float* numbers, int count, const float* of_host) {
  __shared__ float given[64];
  __shared__ float swapped[64];
  const int t = static_cast<int>(threadIdx.x), i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const bool first = t == 0, last_of_all = i + 1 == count;
  float x = numbers[i];
  if (fault == KernelFault::kReadsBehind && last_of_all) x = numbers[count];
  if (fault == KernelFault::kWritesBefore && i == 0) numbers[-1] = x;
  if (fault == KernelFault::kReadsHost && first) x = *of_host;
  if (fault == KernelFault::kMisaligned && first) {
    const float4 four = *reinterpret_cast<const float4*>(numbers + 1);
    x = four.x + four.y;
  }
  if (fault == KernelFault::kBarrierOfSome && first) __syncthreads();
  if (fault == KernelFault::kBarrierAfterTheEnd && t == 5) return;
  if (fault == KernelFault::kTwoBarriers) {
    if (first) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  }
  if (fault == KernelFault::kReadsUnset) x = given[t];
  given[fault == KernelFault::kBeyondShared ? t + first * 64 : t] = x;
  if (fault != KernelFault::kNoBarrier) __syncthreads();
  x += given[63 - t];

  if (fault == KernelFault::kBarrierOfSomeLanes && t < 3) __syncwarp();
  if (fault == KernelFault::kShuffleOfSome && t != 3) x += __shfl_xor_sync(kWholeWarp, x, 1);
  if (fault == KernelFault::kShuffleAfterTheEnd && t == 33) return;
  if (fault == KernelFault::kShuffleOfHalf) x += __shfl_xor_sync(0xffffu, x, 1);
  swapped[t] = __shfl_xor_sync(kWholeWarp, x, 16);
  if (fault != KernelFault::kNoWarpBarrier) __syncwarp();
  x = swapped[t ^ 16];

  const int to = fault == KernelFault::kBlocksMeet ? t : i;
  auto* const sum = reinterpret_cast<unsigned long long*>(numbers);
  if (fault == KernelFault::kNotAtomic) {
    if (first) ++*sum;
  } else if (fault == KernelFault::kAtomicAfterWrite || fault == KernelFault::kAtomicAfterRead) {
    auto* const total = reinterpret_cast<unsigned long long*>(given);
    __syncthreads();
    if (fault == KernelFault::kAtomicAfterWrite && first) *total = 0;
    if (fault == KernelFault::kAtomicAfterRead && first) numbers[i] = static_cast<float>(*total);
    atomicAdd(total, 1ull);
  } else {
    numbers[to] = x + 1;
  }
}

}  // namespace

cudaError_t LaunchFaulty(cudaStream_t stream, KernelFault fault, const FaultyLaunch& launch, float* numbers) {
  static const float of_host = 1;
  const int count = static_cast<int>(launch.grid.x * launch.block.x);
  Faulty<<<launch.grid, launch.block, launch.shared_bytes, stream>>>(fault, numbers, count, &of_host);
  return cudaGetLastError();
}

}  // namespace downpour
