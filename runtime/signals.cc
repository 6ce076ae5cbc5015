#include "runtime/signals.h"

#include <glog/logging.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace downpour {
namespace {

int event = -1;
std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free, "else a handler may not touch it");

// Only what is safe in a handler.
void OnStop(int signal) {
  const int saved = errno;
  struct sigaction at_once {};
  at_once.sa_handler = SIG_DFL;
  sigaction(SIGTERM, &at_once, nullptr);
  sigaction(SIGINT, &at_once, nullptr);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = write(event, &one, sizeof(one));
  received = signal;  // last, so that whoever sees it finds the descriptor readable
  errno = saved;
}

}  // namespace

StopSignals::StopSignals() {
  CHECK_EQ(event, -1) << "one per process";
  event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  PCHECK(event >= 0) << "eventfd";
  struct sigaction stop {};
  stop.sa_handler = OnStop;
  stop.sa_flags = SA_RESTART;
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  PCHECK(sigaction(SIGTERM, &stop, nullptr) == 0 && sigaction(SIGINT, &stop, nullptr) == 0 &&
         sigaction(SIGPIPE, &ignore, nullptr) == 0)
      << "sigaction";
}

int StopSignals::fd() const { return event; }

int StopSignals::Take() {
  if (received == 0) return 0;
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(event, &count, sizeof(count));
  return received.exchange(0);
}

}  // namespace downpour
