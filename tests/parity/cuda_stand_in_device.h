// CUDA's language on the host, for the stand-in to run real kernels: kernels_on_host.py turns a .cu into C++ that
// includes this, and each launch into LaunchKernel.
//
//   LaunchKernel("Name", {grid, block, 0, stream}, [](auto... a) { Name(a...); }, arguments...);
//
// Order: what is launched is done in its place on the stream. Blocks run one after another in an order drawn from the
//   stand-in's seed, the threads of a block by turns: in such an order each runs until it ends or waits for others.
// Errors: a launch that CUDA would refuse is refused, which cudaGetLastError tells. What is undefined or a fault on a
//   GPU ends the program with a sentence that names kernel, block and thread:
//   - a barrier that not all threads of the block reach, or of a warp, or not the same one. Who has ended has not
//     reached it: chips let those go, CUDA's guide does not promise it;
//   - __syncwarp and __shfl_xor_sync of anything but a whole warp, which is all that our kernels ask for;
//   - an access to what is no memory of the device, or not as a whole, or not aligned to its size (see
//     cuda_stand_in_access.h);
//   - two threads at one place, one of which writes, in no order (likewise).
//   Memory of a block is filled with NaN before the block runs.
// Cost: some 0.1 us for each element; 0.05 us for each thread at each barrier or shuffle.
// Source: CUDA C++ Programming Guide, "Synchronization Functions", "Warp Shuffle Functions", "Memory Fence Functions".
// Tests: tests/parity/cuda_stand_in_device_test.cc.
#pragma once

#include <cuda_runtime.h>
#include <math.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <type_traits>

namespace downpour {

// ---- Launching ------------------------------------------------------------------------------------------------------

struct KernelLaunch {
  dim3 grid, block;
  size_t shared_bytes = 0;  // asked for by the launch: none of ours does
  cudaStream_t stream = nullptr;
};

// `arguments`, which are copied now, as at a real launch, are read by all threads; each does `thread`.
void LaunchKernelCall(const char* name, const KernelLaunch& launch, void (*thread)(const void*), const void* arguments,
                      size_t bytes);

template <class Call, class... Arguments>
void LaunchKernel(const char* name, const KernelLaunch& launch, Call call, Arguments... arguments) {
  const auto all = [=] { call(arguments...); };
  using All = decltype(all);
  static_assert(std::is_trivially_copyable_v<All> && alignof(All) <= alignof(std::max_align_t));
  LaunchKernelCall(
      name, launch, [](const void* copy) { (*static_cast<All*>(copy))(); }, &all, sizeof(all));
}

// ---- What a thread asks for -----------------------------------------------------------------------------------------

uint3 KernelThreadIndex();
uint3 KernelBlockIndex();
dim3 KernelBlockSize();
dim3 KernelGridSize();

void BeginSharedMemory(void* memory, size_t bytes);  // of the block; by each thread that comes there
void AwaitBlock(std::source_location where);
// Of the calling lane: what the lane `distance` away, in the sense of exclusive or, gave.
uint64_t ExchangeInWarp(uint32_t mask, uint64_t bits, int distance, std::source_location where);
void AwaitWarp(uint32_t mask, std::source_location where);
// Returns what was there.
uint64_t AddAtomically(uint64_t* to, uint64_t number);

}  // namespace downpour

// ---- As CUDA names it -----------------------------------------------------------------------------------------------

#define threadIdx (::downpour::KernelThreadIndex())
#define blockIdx (::downpour::KernelBlockIndex())
#define blockDim (::downpour::KernelBlockSize())
#define gridDim (::downpour::KernelGridSize())

inline void __syncthreads(std::source_location where = std::source_location::current()) { downpour::AwaitBlock(where); }
inline void __syncwarp(unsigned mask = 0xffffffffu, std::source_location where = std::source_location::current()) {
  downpour::AwaitWarp(mask, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance, std::source_location where = std::source_location::current()) {
  using Bits = std::conditional_t<sizeof(T) == sizeof(uint64_t), uint64_t, uint32_t>;
  return std::bit_cast<T>(
      static_cast<Bits>(downpour::ExchangeInWarp(mask, std::bit_cast<Bits>(value), distance, where)));
}
inline unsigned long long atomicAdd(unsigned long long* to, unsigned long long number) {
  static_assert(sizeof(*to) == sizeof(uint64_t));
  return downpour::AddAtomically(reinterpret_cast<uint64_t*>(to), number);
}

inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((uint64_t{high} << 32 | low) << (shift % 32)) >> 32);
}
