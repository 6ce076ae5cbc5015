// Runs a Computer on a thread of its own, so that a long GEMM never delays a heartbeat; and where it gains by that, on
// a second one, what is loaded ahead.
//
// Order: requests one after the other, as submitted; every completion becomes a ComputeDone in the mailbox. What is
//   loaded ahead likewise, beside the requests, unless it waits until the request after it was submitted.
// Threads: Submit and PrefetchParameters from one thread. The destructor waits for what is at hand and drops the rest.
// Tests: tests/unit/runtime/process/compute_thread_test.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/compute.h"
#include "runtime/posix/mailbox.h"
#include "runtime/posix/serial_thread.h"
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
    loader_.emplace(AtEnd::kAbandon, [this](const Ahead& ahead) {
      if (ahead.requests == requests_) computer_->PrefetchParameters(ahead.values);
    });
  }
  void Submit(Compute compute) {
    ++requests_;
    thread_.Submit(std::move(compute));
  }
  void PrefetchParameters(SliceValues values) {
    if (loader_) loader_->Submit({requests_, std::move(values)});
  }

 private:
  struct Ahead {
    uint64_t requests = 0;  // before it
    SliceValues values;
  };

  std::unique_ptr<Computer> computer_;
  std::atomic<uint64_t> requests_ = 0;  // what was ahead of one that was submitted since comes too late
  SerialThread<Compute> thread_;
  std::optional<SerialThread<Ahead>> loader_;
};

}  // namespace downpour
