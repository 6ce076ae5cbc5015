// One thread that carries out requests one after the other.
//
// Order: first come, first served.
// Threads: Submit from any. The destructor lets the request at hand end; with kFinish also all that were submitted
//   before, with kAbandon none of those.
// Tests: tests/unit/runtime/posix/serial_thread_test.cc.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace downpour {

enum class AtEnd { kFinish, kAbandon };

template <typename Request>
class SerialThread {
 public:
  SerialThread(AtEnd at_end, std::function<void(Request)> handle)
      : at_end_(at_end), handle_(std::move(handle)), thread_([this] { Loop(); }) {}

  ~SerialThread() {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void Submit(Request request) {
    {
      std::lock_guard lock(mutex_);
      requests_.push_back(std::move(request));
    }
    changed_.notify_one();
  }

 private:
  void Loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ending_ || !requests_.empty(); });
      if (ending_ && (at_end_ == AtEnd::kAbandon || requests_.empty())) return;
      Request request = std::move(requests_.front());
      requests_.pop_front();
      lock.unlock();
      handle_(std::move(request));
      lock.lock();
    }
  }

  const AtEnd at_end_;
  const std::function<void(Request)> handle_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> requests_;
  bool ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace downpour
