// Runs a Computer on a thread of its own, so that a long GEMM never delays a heartbeat; and where it gains by that, on
// a second one, what is loaded ahead.
//
// Order: requests one after the other, as submitted; every completion becomes a ComputeDone in the mailbox. What is
//   loaded ahead likewise, beside the requests.
// Threads: Submit and LoadAhead from one thread. The destructor waits for what is at hand and drops the rest.
// Tests: tests/unit/runtime/driver/compute_thread_test.cc.
#pragma once

#include <memory>
#include <optional>
#include <utility>

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
        }) {
    if (!computer_->loads_ahead()) return;
    loader_.emplace(AtEnd::kAbandon, [this](const SliceValues& values) { computer_->LoadAhead(values); });
  }
  void Submit(Compute compute) { thread_.Submit(std::move(compute)); }
  void LoadAhead(SliceValues values) {
    if (loader_) loader_->Submit(std::move(values));
  }

 private:
  std::unique_ptr<Computer> computer_;
  SerialThread<Compute> thread_;
  std::optional<SerialThread<SliceValues>> loader_;
};

}  // namespace downpour
