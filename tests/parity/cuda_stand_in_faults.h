// Kernels that do what no kernel may, for the tests of who is to notice it: launched as those of tensor/cuda_kernels.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace downpour {

// What cuda_stand_in_faults.cu says of each.
enum class KernelFault {
  kNone,
  kReadsBehind,
  kWritesBefore,
  kReadsHost,
  kMisaligned,
  kBarrierOfSome,
  kBarrierAfterTheEnd,
  kTwoBarriers,
  kNoBarrier,
  kReadsUnset,
  kBarrierOfSomeLanes,
  kShuffleOfSome,
  kShuffleAfterTheEnd,
  kShuffleOfHalf,
  kNoWarpBarrier,
  kBlocksMeet,
  kNotAtomic,
  kAtomicAfterWrite,
  kAtomicAfterRead,
  kBeyondShared,
};

struct FaultyLaunch {
  dim3 grid = 2, block = 64;
  size_t shared_bytes = 0;
};
// `numbers`: as many as threads. Where nothing is wrong, each becomes the sum of it, of the one as far from the other
// end of its block, and of 1.
cudaError_t LaunchFaulty(cudaStream_t stream, KernelFault fault, const FaultyLaunch& launch, float* numbers);

}  // namespace downpour
