// What there is to know of a GPU before anything is made on it.
//
// Errors: NOT_FOUND without such a device, FAILED_PRECONDITION for a driver or a chip that is too old; those of
//   cuda_status.h.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace downpour {

struct CudaDevice {
  std::string name;  // for people: number, chip, memory, CUDA's version
  std::string pci_address;
};

// Makes it the calling thread's current one.
absl::StatusOr<CudaDevice> OpenCudaDevice(int number);

}  // namespace downpour
