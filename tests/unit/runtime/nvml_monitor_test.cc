#include "runtime/nvml_monitor.h"

#include <gtest/gtest.h>

#include <thread>

namespace downpour {
namespace {

TEST(NvmlMonitorTest, TellsWhatTheLibraryTellsAndGoesOnAsking) {
  NvmlMonitor monitor("0000:00:01.0", DOWNPOUR_NVML_STAND_IN, 1ms);
  const GpuStats first = monitor.Latest();
  EXPECT_EQ(first.address, "0000:00:01.0");
  EXPECT_EQ(first.name, "Stand-in 80GB");
  EXPECT_EQ(first.celsius, 61);
  EXPECT_EQ(first.memory_used, uint64_t{20} << 30);
  EXPECT_EQ(first.memory_total, uint64_t{80} << 30);
  ASSERT_GT(first.utilisation, 0);
  while (monitor.Latest().utilisation == first.utilisation) std::this_thread::yield();
}

TEST(NvmlMonitorTest, WhatAGpuDoesNotTellIsUnknown) {
  const GpuStats stats = NvmlMonitor("0000:00:02.0", DOWNPOUR_NVML_STAND_IN).Latest();
  EXPECT_EQ(stats.utilisation, -1);
  EXPECT_EQ(stats.celsius, 61);
}

TEST(NvmlMonitorTest, WithoutTheLibraryOrTheGpuOnlyTheAddressIsKnown) {
  for (const auto& [address, library] : {std::pair{"0000:00:01.0", "libno-such-library.so"},
                                         {"0000:ff:01.0", DOWNPOUR_NVML_STAND_IN},
                                         {"", DOWNPOUR_NVML_STAND_IN}}) {
    const GpuStats stats = NvmlMonitor(address, library).Latest();
    EXPECT_EQ(stats.address, address);
    EXPECT_EQ(stats.name, "");
    EXPECT_EQ(stats.utilisation, -1);
    EXPECT_EQ(stats.memory_total, 0u);
  }
}

}  // namespace
}  // namespace downpour
