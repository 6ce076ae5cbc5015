// A dialled connection with a short memory: what finds no connection waits a moment for it.
//
// A role sends right after it dials, long before the connection stands; without waiting that message would only go with
// the first retry, which on the data plane is seconds later. What waits too long is lost, as any message may be: its
// sender has repeated it by then, and a peer that comes back after an outage is not met by a backlog.
//
// Order: messages leave in the order in which they were sent.
// Cost: at most kWaitingMessages and kWaitingBytes wait; the oldest are lost first.
// Tests: tests/unit/runtime/zmq_link_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "runtime/world_time.h"
#include "runtime/zmq_frames.h"

namespace downpour {

class ZmqLink {
 public:
  static constexpr size_t kWaitingMessages = 64;
  static constexpr size_t kWaitingBytes = size_t{16} << 20;
  static constexpr Duration kPatience = 1s;

  ZmqLink(ZmqSocket socket, PeerRole to) : to_(to), channel_(std::move(socket), ZmqChannel::Side::kDialler) {}

  PeerRole to() const { return to_; }  // who is at the other end

  void Send(Time now, std::vector<Payload> frames);
  // Sends what waits, as far as it goes, and drops what has waited too long.
  void Flush(Time now);
  bool waiting() const { return !queue_.empty(); }
  // Messages that gave way to newer ones, since the last call.
  uint64_t TakeLost() { return std::exchange(lost_, 0); }
  ZmqChannel& channel() { return channel_; }

 private:
  struct Waiting {
    Time since;
    size_t bytes = 0;
    std::vector<Payload> frames;
  };
  void PopOldest();

  PeerRole to_;
  ZmqChannel channel_;
  std::deque<Waiting> queue_;
  size_t bytes_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace downpour
