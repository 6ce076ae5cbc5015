// Where other threads leave inputs for a role's thread: completions of storage and device.
//
// Order: inputs come out in the order in which they were posted.
// Cost: has_mail() is one load; the descriptor is written only when the box was empty.
// Threads: Post from any; Take and fd from the role's.
// Tests: tests/unit/runtime/posix/mailbox_test.cc.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/posix/fd.h"
#include "runtime/role.h"

namespace downpour {

class Mailbox {
 public:
  Mailbox();
  void Post(Input input);
  bool has_mail() const { return has_mail_.load(std::memory_order_acquire); }
  std::vector<Input> Take();
  int fd() const { return event_.get(); }  // readable while there is mail

 private:
  UniqueFd event_;
  std::atomic<bool> has_mail_{false};
  std::mutex mutex_;
  std::vector<Input> inputs_;
};

}  // namespace downpour
