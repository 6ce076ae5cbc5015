// SIGTERM and SIGINT as inputs: the first becomes StopRequested in a mailbox, the second ends the process at once. What
// comes within kOneWish of the first is the same wish: timeout(1) signals its child, and then the child's group.
//
//   StopSignals signals;            // first of all: whoever is told to stop now ends at once
//   ...
//   signals.DeliverTo(&mailbox);    // from here on it is the role's to end
//
// A SIGINT that the caller ignores stays ignored, as in a script's background. SIGTERM is heard in any case.
//
// Order: what comes after the destructor is left aside: the process is about to end.
// Threads: a signal interrupts no call of any thread: they block it all but this one's own, which does nothing else. So
//   make it before all other threads. DeliverTo from any.
// Tests: tests/unit/runtime/process/stop_signals_test.cc.
#pragma once

#include <csignal>
#include <mutex>
#include <thread>

#include "runtime/posix/fd.h"
#include "runtime/posix/mailbox.h"
#include "runtime/world_time.h"

namespace downpour {

inline constexpr Duration kOneWish = 50ms;

class StopSignals {
 public:
  StopSignals();  // SIGPIPE is ignored as well
  ~StopSignals();
  void DeliverTo(Mailbox* mailbox);  // which outlives this

 private:
  void Listen();
  int Take();

  const sigset_t heard_;
  UniqueFd signals_;
  UniqueFd ending_;
  std::mutex mutex_;
  Mailbox* mailbox_ = nullptr;
  std::thread thread_;  // last: it uses the others
};

}  // namespace downpour
