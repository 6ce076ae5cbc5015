#include "tensor/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tensor/cuda_module.h"

namespace downpour {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(DeviceTest, TheCpuIsThereWhereItIsAskedFor) {
  const auto device = OpenDevice("cpu", 0, {});
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_TRUE(device->backend->memory_is_host());
  EXPECT_THAT(device->Describe(), StartsWith("computes on cpu (oneDNN"));
  EXPECT_THAT(device->Describe(), HasSubstr(": asked for"));
}

TEST(DeviceTest, AutoAlwaysFindsOneAndSaysWhyThisOne) {
  for (int turn : {-1, 0, 5}) {
    const auto device = OpenDevice("auto", turn, {});
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_FALSE(device->why.empty());
    if (!CountCudaDevices().ok()) {
      EXPECT_TRUE(device->backend->memory_is_host());
      EXPECT_THAT(device->why, HasSubstr("NVIDIA driver"));
    }
  }
}

TEST(DeviceTest, AGpuThatIsNotThereIsAnErrorOnlyWhereItWasAskedFor) {
  const auto device = OpenDevice("cuda:9999", 0, {});
  EXPECT_EQ(device.status().code(), absl::StatusCode::kNotFound) << device.status();
}

// Where the module was built but no GPU answers, it loads, with all that it needs, and refuses politely.
TEST(DeviceTest, AModuleWithoutAGpuIsAStatus) {
  const auto module = LoadCudaModule();
#ifdef DOWNPOUR_WITH_CUDA
  ASSERT_TRUE(module.ok()) << module.status();
#endif
  if (!module.ok()) {
    EXPECT_THAT(std::string(module.status().message()), HasSubstr(kCudaModuleFile));
  } else if (!CountCudaDevices().ok()) {
    const auto backend = (*module)->make_backend(0, {});
    ASSERT_FALSE(backend.ok());
    EXPECT_FALSE(backend.status().message().empty());
  }
}

TEST(DeviceTest, WhatIsNoDeviceIsRefusedWithTheOnesThatAre) {
  for (const char* wish : {"", "gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "CPU"}) {
    const auto device = OpenDevice(wish, 0, {});
    EXPECT_EQ(device.status().code(), absl::StatusCode::kInvalidArgument) << wish;
    EXPECT_THAT(std::string(device.status().message()), HasSubstr("auto, cpu or cuda:N")) << wish;
  }
}

}  // namespace
}  // namespace downpour
