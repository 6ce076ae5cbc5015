#include "runtime/posix/mailbox.h"

#include <glog/logging.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace downpour {

Mailbox::Mailbox() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { PCHECK(event_.ok()) << "eventfd"; }

void Mailbox::Post(Input input) {
  std::lock_guard lock(mutex_);
  inputs_.push_back(std::move(input));
  if (inputs_.size() > 1) return;
  has_mail_.store(true, std::memory_order_release);
  const uint64_t one = 1;
  PCHECK(write(event_.get(), &one, sizeof(one)) == sizeof(one)) << "eventfd";
}

std::vector<Input> Mailbox::Take() {
  std::lock_guard lock(mutex_);
  if (inputs_.empty()) return {};
  uint64_t count = 0;
  PCHECK(read(event_.get(), &count, sizeof(count)) == sizeof(count)) << "eventfd";
  has_mail_.store(false, std::memory_order_release);
  return std::exchange(inputs_, {});
}

}  // namespace downpour
