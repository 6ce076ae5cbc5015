// The host backend, once per CPU target, and the device made of it.
#include <hwy/highway.h>

#include "tensor/host_backend.h"
#include "tests/parity/deferred_backend.h"
#include "tests/parity/devices.h"
#include "tests/unit/tensor/cpu_targets.h"

namespace downpour {
namespace {

DeviceCase Deferred(const char* name, Precision precision, double factor_rounding) {
  return {name,
          [precision]() -> std::unique_ptr<Backend> {
            hwy::SetSupportedTargetsForTest(0);
            auto backend = std::make_unique<DeferredBackend>();
            backend->UsePrecision(precision);
            return backend;
          },
          factor_rounding};
}

}  // namespace

std::vector<DeviceCase> DevicesUnderTest() {
  std::vector<DeviceCase> devices;
  for (int64_t target : CpuTargets()) {
    devices.push_back({hwy::TargetName(target), [target] {
                         hwy::SetSupportedTargetsForTest(target);
                         return MakeHostBackend({});
                       }});
  }
  devices.push_back(Deferred("Deferred", Precision::kFp32, 0));
  devices.push_back(Deferred("DeferredTf32", Precision::kTf32, kTf32Rounding));
  devices.push_back(Deferred("DeferredBf16", Precision::kBf16, kBf16Rounding));
  return devices;
}

}  // namespace downpour
