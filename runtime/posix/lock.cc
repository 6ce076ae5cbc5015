#include "runtime/posix/lock.h"

#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace downpour {
namespace {

constexpr int kLooks = 100;
constexpr auto kBetweenLooks = std::chrono::milliseconds(10);

}  // namespace

int TakeLock(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno; }

int KeepLock(int fd) {
  return KeepLock(fd, [] { std::this_thread::sleep_for(kBetweenLooks); });
}

int KeepLock(int fd, absl::FunctionRef<void()> wait) {
  for (int look = 1;; ++look) {
    const int error = TakeLock(fd);
    if (error != EWOULDBLOCK || look == kLooks) return error;
    wait();
  }
}

}  // namespace downpour
