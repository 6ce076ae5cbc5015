// What kernels read and write on the stand-in, access by access: the compiler calls us for each, as it would call its
// own sanitizers (-fsanitize=thread,bounds), whose libraries are not linked.
//
// Order: two accesses to one place, by two threads of one launch, one of which writes and not both atomically, must be
//   in an order: of one block by a __syncthreads between them, of one warp by a __syncwarp too. A shuffle makes none.
//   That is looked for in the first 256 KiB or so that a launch touches; places are two bytes.
// Errors: what is wrong ends the program by FaultOfKernel.
// Source: CUDA C++ Programming Guide, "Memory Fence Functions", "Device Memory Accesses" (size and alignment).
// Tests: tests/parity/cuda_stand_in_device_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace downpour {

struct KernelMemory {
  uintptr_t begin = 0;
  size_t bytes = 0;

  bool operator==(const KernelMemory&) const = default;
  bool Holds(uintptr_t at, size_t count) const { return at - begin < bytes && count <= bytes - (at - begin); }
};

// Which thread of a launch accesses, and when.
struct KernelMoment {
  uint32_t block = 0;
  uint32_t thread = 0;          // of the block
  uint32_t block_barriers = 0;  // that it has passed
  uint32_t warp_barriers = 0;
};

// From then on accesses are that thread's; `stack` is its own.
void BeginAccesses(const KernelMoment& moment, KernelMemory stack);
void EndAccesses();  // from then on nobody's

// Before the first access of a launch, the arguments of which all threads may read; of each of its blocks; and to
// memory of the block's. True: it is new in this block.
void BeginAccessesOfLaunch(KernelMemory arguments);
void BeginAccessesOfBlock();
bool BeginAccessesToShared(KernelMemory memory);

void AccessAtomically(const void* at, size_t bytes);

// Ends the program, naming kernel, block and thread.
[[noreturn]] void FaultOfKernel(const std::string& what);

}  // namespace downpour
