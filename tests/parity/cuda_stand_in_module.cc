// The driver with two GPUs and the CUDA module with the stand-in inside, for processes: one file under both names.
// DOWNPOUR_STAND_IN_LOST in the environment names a file: who removes it loses its GPU soon after.
#include <cstdio>
#include <cstdlib>

#include "tensor/cuda_backend.h"
#include "tensor/cuda_module.h"
#include "tests/parity/cuda_stand_in.h"

namespace downpour {
namespace {

constexpr uint64_t kCallsBeforeTheLoss = 2000;

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(int device, const CudaOptions& options) {
  ResetCudaStandIn(1, size_t{1} << 30, device);
  const char* const lost = std::getenv("DOWNPOUR_STAND_IN_LOST");
  if (lost != nullptr && std::remove(lost) == 0) FailCudaCall(kCallsBeforeTheLoss, /*for_good=*/true);
  return MakeCudaBackend(device, options);
}

}  // namespace
}  // namespace downpour

extern "C" {

const downpour::CudaModule* DownpourCudaModule() {
  static const downpour::CudaModule module = {DOWNPOUR_VERSION, downpour::MakeBackend, nullptr, nullptr};
  return &module;
}
int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int* count) {
  *count = downpour::kStandInDevices;
  return 0;
}
}
