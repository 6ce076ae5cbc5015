#include "tensor/cuda_device.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "tensor/cuda_status.h"

namespace downpour {
namespace {

constexpr int kOldestComputeMajor = 8;  // see the architectures in tensor/meson.build

}  // namespace

absl::StatusOr<CudaDevice> OpenCudaDevice(int number) {
  int count = 0, driver = 0, runtime = 0;
  CUDA_TRY(cudaDriverGetVersion(&driver));
  CUDA_TRY(cudaRuntimeGetVersion(&runtime));
  if (driver > 0 && driver / 1000 < runtime / 1000) {
    return absl::FailedPreconditionError(absl::StrCat("the driver speaks CUDA ", driver / 1000, ".", driver % 1000 / 10,
                                                      ", this build needs ", runtime / 1000, ".0: update the driver"));
  }
  CUDA_TRY(cudaGetDeviceCount(&count));
  if (number >= count) {
    return absl::NotFoundError(
        absl::StrCat("there is no cuda:", number, ": the last that answers is cuda:", count - 1));
  }
  CUDA_TRY(cudaSetDevice(number));
  cudaDeviceProp properties{};
  CUDA_TRY(cudaGetDeviceProperties(&properties, number));
  if (properties.major < kOldestComputeMajor) {
    return absl::FailedPreconditionError(
        absl::StrCat("cuda:", number, " (", properties.name, ") is of compute capability ", properties.major, ".",
                     properties.minor, "; this build needs ", kOldestComputeMajor, ".0 or later"));
  }
  char address[32] = {};
  CUDA_TRY(cudaDeviceGetPCIBusId(address, sizeof(address), number));
  return CudaDevice{absl::StrCat("cuda:", number, " (", properties.name, ", ", properties.totalGlobalMem >> 30,
                                 " GiB, CUDA ", runtime / 1000, ".", runtime % 1000 / 10),
                    address};
}

}  // namespace downpour
