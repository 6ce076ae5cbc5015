// Watches one GPU through NVIDIA's management library, which is loaded where it is there.
//
//   NvmlMonitor monitor(backend->pci_address());
//   GpuStats now = monitor.Latest();
//
// Order: looked at once in the constructor, then once in each period from a thread of this one's.
// Cost: Latest is a copy under a lock: whatever the driver keeps its asker waiting for, no role waits for it.
// Errors: none. Without the library, or where it does not know the GPU, only the address is known; what a GPU does not
//   tell (one in MIG mode: its utilisation) is unknown.
// Threads: Latest on any.
// Source: NVIDIA's NVML API reference, "Device Queries".
// Tests: tests/unit/runtime/process/nvml_monitor_test.cc, against a library of its own: the real one needs a GPU.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/world_time.h"
#include "schema/message.h"

namespace downpour {

class NvmlMonitor {
 public:
  static constexpr char kLibrary[] = "libnvidia-ml.so.1";

  // `address`: of PCI; empty: there is no GPU, and nothing is asked.
  explicit NvmlMonitor(const std::string& address, const std::string& library = kLibrary, Duration period = 1s);
  ~NvmlMonitor();

  GpuStats Latest() const;

 private:
  class Card;

  std::unique_ptr<Card> card_;  // null: there is nobody to ask
  mutable std::mutex mutex_;
  GpuStats latest_;
  std::jthread thread_;  // last: uses the others
};

}  // namespace downpour
