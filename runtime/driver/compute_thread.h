// Runs a Computer on a thread of its own, so that a long GEMM never delays a heartbeat.
//
// Order: requests one after the other, as submitted; every completion becomes a ComputeDone in the mailbox.
// Threads: Submit from one thread. The destructor waits for the request at hand and drops the others.
// Tests: tests/unit/runtime/driver/compute_thread_test.cc.
#pragma once

#include <memory>

#include "runtime/compute.h"
#include "runtime/driver/mailbox.h"
#include "runtime/driver/serial_thread.h"
#include "runtime/role.h"

namespace downpour {

class ComputeThread {
 public:
  // `mailbox` outlives this.
  ComputeThread(std::unique_ptr<Computer> computer, Mailbox* mailbox)
      : computer_(std::move(computer)), thread_(AtEnd::kAbandon, [this, mailbox](Compute compute) {
          computer_->Run(compute.request, [&](absl::Status status, ComputeResult result) {
            mailbox->Post(ComputeDone{compute.ticket, std::move(status), std::move(result)});
          });
        }) {}
  void Submit(Compute compute) { thread_.Submit(std::move(compute)); }

 private:
  std::unique_ptr<Computer> computer_;
  SerialThread<Compute> thread_;
};

}  // namespace downpour
