// What no kernel may do is noticed, by a sentence that says who did what where.
#include "tests/parity/cuda_stand_in_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "tensor/cuda_memory.h"
#include "tests/parity/cuda_stand_in.h"
#include "tests/parity/cuda_stand_in_faults.h"

namespace downpour {
namespace {

constexpr size_t kThreads = 2 * 64;

// What becomes of 0, 1, 2, ...
std::vector<float> Outcome(KernelFault fault, uint64_t seed) {
  ResetCudaStandIn(seed);
  cudaSetDevice(1);
  const CudaStream stream = *MakeCudaStream();
  const CudaMemory numbers = *MakeCudaMemory(kThreads * sizeof(float));
  const auto host = std::static_pointer_cast<float>(*MakePinnedMemory(kThreads * sizeof(float)));
  for (size_t i = 0; i < kThreads; ++i) host.get()[i] = static_cast<float>(i);
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    EXPECT_EQ(cudaMemcpyAsync(to, from, kThreads * sizeof(float), kind, stream.get()), cudaSuccess);
  };
  copy(numbers.get(), host.get(), cudaMemcpyHostToDevice);
  EXPECT_EQ(LaunchFaulty(stream.get(), fault, {}, static_cast<float*>(numbers.get())), cudaSuccess);
  copy(host.get(), numbers.get(), cudaMemcpyDeviceToHost);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  return {host.get(), host.get() + kThreads};
}

TEST(CudaStandInDeviceTest, RunsThreadsBarriersAndShufflesInEachOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> numbers = Outcome(KernelFault::kNone, seed);
    for (size_t i = 0; i < kThreads; ++i) EXPECT_EQ(numbers[i], i < 64 ? 63.0f + 1 : 191.0f + 1) << seed;
  }
}

struct FaultCase {
  const char* name;
  KernelFault fault;
  const char* told;
};
std::ostream& operator<<(std::ostream& out, const FaultCase& c) { return out << c.name; }

class KernelFaultTest : public testing::TestWithParam<FaultCase> {};

// Whatever the order in which the threads come by.
TEST_P(KernelFaultTest, IsTold) {
  const std::string told = std::string("Faulty: block \\([01], 0, 0\\), thread \\([0-9]+, 0, 0\\): ") + GetParam().told;
  for (uint64_t seed = 0; seed < 6; ++seed) EXPECT_DEATH(Outcome(GetParam().fault, seed), told) << seed;
}

constexpr char kWaitsForOne[] = "waits at .*cuda_stand_in_faults.cu:[0-9]+ for thread [0-9]+, which waits at line";
constexpr char kInNoOrder[] = "(reads|writes) what thread [0-9]+ of block [01] (wrote|read): in no order";
constexpr char kWaitsForEnded[] = "waits at .*cuda_stand_in_faults.cu:[0-9]+ for thread [0-9]+, which has ended";

INSTANTIATE_TEST_SUITE_P(
    All, KernelFaultTest,
    testing::ValuesIn(std::vector<FaultCase>{
        {"ReadsBehind", KernelFault::kReadsBehind,
         "reads 4 bytes where no memory of the device is: at byte 512 of 512"},
        {"WritesBefore", KernelFault::kWritesBefore, "writes 4 bytes where no memory of the device is"},
        {"ReadsHost", KernelFault::kReadsHost, "reads 4 bytes where no memory of the device is"},
        {"Misaligned", KernelFault::kMisaligned, "reads 16 bytes at [0-9a-f]+, which is not aligned"},
        {"BarrierOfSome", KernelFault::kBarrierOfSome, kWaitsForOne},
        {"BarrierAfterTheEnd", KernelFault::kBarrierAfterTheEnd, kWaitsForEnded},
        {"TwoBarriers", KernelFault::kTwoBarriers, kWaitsForOne},
        {"NoBarrier", KernelFault::kNoBarrier, kInNoOrder},
        {"BarrierOfSomeLanes", KernelFault::kBarrierOfSomeLanes, kWaitsForOne},
        {"ShuffleOfSome", KernelFault::kShuffleOfSome, kWaitsForOne},
        {"ShuffleAfterTheEnd", KernelFault::kShuffleAfterTheEnd, kWaitsForEnded},
        {"ShuffleOfHalf", KernelFault::kShuffleOfHalf, "waits for the lanes ffff of its warp alone"},
        {"NoWarpBarrier", KernelFault::kNoWarpBarrier, kInNoOrder},
        {"BlocksMeet", KernelFault::kBlocksMeet, kInNoOrder},
        {"NotAtomic", KernelFault::kNotAtomic, kInNoOrder},
        {"AtomicAfterWrite", KernelFault::kAtomicAfterWrite, kInNoOrder},
        {"AtomicAfterRead", KernelFault::kAtomicAfterRead, kInNoOrder},
        {"BeyondShared", KernelFault::kBeyondShared, "at .*cuda_stand_in_faults.cu:[0-9]+ an array has no element 64"},
    }),
    [](const testing::TestParamInfo<FaultCase>& c) { return std::string(c.param.name); });

// Also what the block before wrote there: each begins with NaN.
TEST(CudaStandInDeviceTest, MemoryOfABlockThatNobodySetIsNan) {
  for (float number : Outcome(KernelFault::kReadsUnset, 1)) EXPECT_TRUE(std::isnan(number));
}

TEST(CudaStandInDeviceTest, WhatCudaWouldNotLaunchIsRefusedAndToldOnce) {
  ResetCudaStandIn(1);
  cudaSetDevice(1);
  const CudaStream stream = *MakeCudaStream();
  const std::vector<FaultyLaunch> refused = {
      {.grid = 0},           {.block = 0},         {.block = 1025},         {.block = {32, 33}},
      {.block = {1, 1, 65}}, {.grid = {1, 65536}}, {.grid = {1, 1, 65536}}, {.shared_bytes = (48 << 10) + 1}};
  for (const FaultyLaunch& launch : refused) {
    EXPECT_EQ(LaunchFaulty(stream.get(), KernelFault::kNone, launch, nullptr), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  EXPECT_EQ(LaunchFaulty(nullptr, KernelFault::kNone, {}, nullptr), cudaErrorInvalidResourceHandle);
}

// As CUDA has it: an error that nobody asked for is told to whoever asks after the next launch.
TEST(CudaStandInDeviceTest, TheLastErrorStaysUntilSomebodyAsks) {
  ResetCudaStandIn(1);
  cudaSetDevice(1);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, size_t{1} << 60), cudaErrorMemoryAllocation);
  const CudaStream stream = *MakeCudaStream();
  const CudaMemory numbers = *MakeCudaMemory(kThreads * sizeof(float));
  const auto launch = [&] {
    return LaunchFaulty(stream.get(), KernelFault::kNone, {}, static_cast<float*>(numbers.get()));
  };
  EXPECT_EQ(launch(), cudaErrorMemoryAllocation);
  EXPECT_EQ(launch(), cudaSuccess);
}

}  // namespace
}  // namespace downpour
