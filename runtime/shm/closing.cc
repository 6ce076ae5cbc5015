#include "runtime/shm/closing.h"

#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace downpour {
namespace {

class Closer {
 public:
  Closer() {
    std::thread([this] { Run(); }).detach();
  }
  void Take(UniqueFd fd) {
    ++waiting_;
    const std::lock_guard lock(mutex_);
    taken_.push_back(std::move(fd));
    some_.notify_one();
  }
  size_t waiting() const { return waiting_; }

 private:
  void Run() {
    for (;;) {
      std::vector<UniqueFd> closing;
      {
        std::unique_lock lock(mutex_);
        some_.wait(lock, [this] { return !taken_.empty(); });
        closing.swap(taken_);
      }
      for (UniqueFd& fd : closing) {
        { const UniqueFd gone(std::move(fd)); }
        --waiting_;
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable some_;
  std::vector<UniqueFd> taken_;
  std::atomic<size_t> waiting_{0};
};

// Never destroyed: its thread may stand in a close().
Closer& TheCloser() {
  static Closer& closer = *new Closer;
  return closer;
}

}  // namespace

void CloseElsewhere(UniqueFd fd) {
  if (fd.ok()) TheCloser().Take(std::move(fd));
}

void EndElsewhere(UniqueFd socket) {
  if (socket.ok()) shutdown(socket.get(), SHUT_RDWR);
  CloseElsewhere(std::move(socket));
}

bool TooManyWaitToBeClosed() { return TheCloser().waiting() > kMostToBeClosed; }

}  // namespace downpour
