#include "runtime/process/nvml_monitor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>

namespace downpour {
namespace {

// It is built beside this program.
const std::string kStandIn =
    std::filesystem::read_symlink("/proc/self/exe").replace_filename("libnvml_stand_in.so").string();

TEST(NvmlMonitorTest, TellsWhatTheLibraryTellsAndGoesOnAsking) {
  NvmlMonitor monitor("0000:00:01.0", kStandIn, 1ms);
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
  const GpuStats stats = NvmlMonitor("0000:00:02.0", kStandIn).Latest();
  EXPECT_EQ(stats.utilisation, -1);
  EXPECT_EQ(stats.celsius, 61);
}

TEST(NvmlMonitorTest, WithoutTheLibraryOrTheGpuOnlyTheAddressIsKnown) {
  for (const auto& [address, library] : {std::pair<std::string, std::string>{"0000:00:01.0", "libno-such-library.so"},
                                         {"0000:ff:01.0", kStandIn},
                                         {"", kStandIn}}) {
    const GpuStats stats = NvmlMonitor(address, library).Latest();
    EXPECT_EQ(stats.address, address);
    EXPECT_EQ(stats.name, "");
    EXPECT_EQ(stats.utilisation, -1);
    EXPECT_EQ(stats.memory_total, 0u);
  }
}

}  // namespace
}  // namespace downpour
