// SIGTERM and SIGINT as inputs: the first becomes StopRequested in a mailbox, the second ends the process at once.
//
//   BlockStopSignals();               // first of all
//   ...
//   StopSignals signals(&mailbox);    // from here on they are heard; one that came before is, too
//
// Order: what comes after the destructor is left aside: the process is about to end.
// Threads: a signal interrupts no call of any thread: they block it all but this one's own, which does nothing else.
// Tests: tests/unit/runtime/posix_signals_test.cc.
#pragma once

#include <thread>

#include "runtime/mailbox.h"
#include "runtime/posix_fd.h"

namespace downpour {

// In this thread and in those that it starts from now on. SIGPIPE is ignored as well.
void BlockStopSignals();

class StopSignals {
 public:
  explicit StopSignals(Mailbox* mailbox);  // outlives this
  ~StopSignals();

 private:
  void Listen(Mailbox* mailbox);

  UniqueFd signals_;
  UniqueFd ending_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace downpour
