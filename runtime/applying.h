// Which push a server is applying just now, for whoever notes it when the process crashes.
//
//   applying.Begin(name);
//   ...the update...
//   applying.End();
//
// Threads: all from one thread; Now also from its handler of a fatal signal, between any two instructions.
// Tests: tests/unit/runtime/process/crash_notes_test.cc.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <optional>

#include "schema/ids.h"

namespace downpour {

// One push to one slice in one run of a job: the same whoever computes it, and as often as it is sent.
struct PushName {
  uint64_t run = 0;
  LeaseId lease{};
  Step step = 0;
  SliceId slice{};
  auto operator<=>(const PushName&) const = default;
};

class Applying {
 public:
  void Begin(const PushName& name) {
    name_ = name;
    under_way_.store(true, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  void End() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    under_way_.store(false, std::memory_order_relaxed);
  }
  std::optional<PushName> Now() const {
    return under_way_.load(std::memory_order_acquire) ? std::optional(name_) : std::nullopt;
  }

 private:
  std::atomic<bool> under_way_ = false;
  PushName name_;
};

}  // namespace downpour
