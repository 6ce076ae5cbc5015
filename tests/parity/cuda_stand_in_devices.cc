// The CUDA backend on its stand-in: where nothing happens before it must, and in orders drawn from seeds.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensor/cuda_backend.h"
#include "tests/parity/cuda_stand_in.h"
#include "tests/parity/devices.h"

namespace downpour {
namespace {

DeviceCase StandIn(const char* name, uint64_t seed, Precision precision, double factor_rounding = 0,
                   double storage_rounding = 0) {
  return {absl::StrCat(name, seed),
          [=] {
            ResetCudaStandIn(seed);
            std::unique_ptr<Backend> backend = MakeCudaBackend(1).value();
            backend->UsePrecision(precision);
            return backend;
          },
          factor_rounding, storage_rounding};
}

}  // namespace

std::vector<DeviceCase> DevicesUnderTest() {
  std::vector<DeviceCase> devices;
  for (uint64_t seed : {0, 1, 2, 3}) {
    devices.push_back(StandIn("StandInFp32Seed", seed, Precision::kFp32));
    devices.push_back(StandIn("StandInBf16Seed", seed, Precision::kBf16, 0, kBf16Rounding));
  }
  devices.push_back(StandIn("StandInTf32Seed", 4, Precision::kTf32, kTf32Rounding));
  return devices;
}

}  // namespace downpour
