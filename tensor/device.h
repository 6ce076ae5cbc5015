// Where a worker computes, by what was asked for and what is there.
//
//   absl::StatusOr<Device> device = OpenDevice("auto", 3, {});
//   LogInfo(device->Describe());   // computes on cuda:1 (NVIDIA H200, ...): 2 GPUs answer
//
// Errors: INVALID_ARGUMENT for a wish that is none; where a GPU was asked for and cannot be had, what keeps it. `auto`
//   has no errors: it falls back to the CPU and says why.
// Tests: tests/unit/tensor/device_test.cc.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tensor/backend.h"
#include "tensor/host_backend.h"

namespace downpour {

struct Device {
  std::unique_ptr<Backend> backend;
  std::string why;

  std::string Describe() const { return "computes on " + backend->name() + ": " + why; }
};

// `wish`: auto, cpu or cuda:N. Of several GPUs `auto` takes that whose turn it is: number
// `turn` modulo their count, the first below 0.
absl::StatusOr<Device> OpenDevice(const std::string& wish, int turn, const HostBackendOptions& host);

}  // namespace downpour
