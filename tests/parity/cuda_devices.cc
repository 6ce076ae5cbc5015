// The first GPU, once per precision. Without one the program exits with 77, which test runners take for "skipped"; with
// --must_run that is a failure.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tensor/device.h"
#include "tests/parity/devices.h"

namespace downpour {
namespace {

constexpr int kSkipped = 77;

DeviceCase Cuda(const char* name, Precision precision, double factor_rounding, double storage_rounding = 0) {
  return {name,
          [precision] {
            auto device = OpenDevice("cuda:0", 0, {});
            if (!device.ok()) {
              std::fprintf(stderr, "%s\n", std::string(device.status().message()).c_str());
              std::abort();
            }
            device->backend->UsePrecision(precision);
            return std::move(device->backend);
          },
          factor_rounding, storage_rounding};
}

int SkipWithoutGpu(bool must_run) {
  const auto device = OpenDevice("cuda:0", 0, {});
  if (device.ok()) {
    std::printf("%s\n", device->backend->name().c_str());
    return 0;
  }
  std::printf("skipped: %s\n", std::string(device.status().message()).c_str());
  return must_run ? EXIT_FAILURE : kSkipped;
}

}  // namespace

std::vector<DeviceCase> DevicesUnderTest() {
  return {Cuda("CudaFp32", Precision::kFp32, 0), Cuda("CudaTf32", Precision::kTf32, kTf32Rounding),
          Cuda("CudaBf16", Precision::kBf16, 0, kBf16Rounding)};
}

}  // namespace downpour

int main(int argc, char** argv) {
  bool must_run = false;
  for (int i = 1; i < argc; ++i) must_run |= std::string(argv[i]) == "--must_run";
  if (const int skipped = downpour::SkipWithoutGpu(must_run); skipped != 0) return skipped;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
