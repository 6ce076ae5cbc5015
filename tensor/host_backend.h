// The backend that computes on this machine's CPU: oneDNN for matrix products, Highway for the rest.
//
// Tests: tests/unit/tensor/backend_test.cc; against the other devices tests/parity.
#pragma once

#include <memory>

#include "tensor/backend.h"

namespace downpour {

struct HostBackendOptions {
  // Threads of one matrix product. One: a host uses its cores by running more workers, which then do not disturb each
  // other.
  int gemm_threads = 1;
};

std::unique_ptr<Backend> MakeHostBackend(const HostBackendOptions& options);

}  // namespace downpour
