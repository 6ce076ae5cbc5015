// Bounds what ZeroMQ gathers for a listener of messages that are not whole yet, which it does not do itself: it gives
// out a message with its last frame, and a message may have any number of them.
//
//   BacklogLimit backlog;
//   backlog.Accepted(fd);  backlog.Heard(fd);  backlog.Ended(fd);   // as it happens
//   backlog.CutOff();                                               // every now and then
//
// The kernel counts what came over each connection. One over which more than kMaxBytes came since it last gave out a
// message is shut down, and ZeroMQ drops what it had gathered. So are the largest where all that is gathered together
// is more than kMostTogether: whoever opens many connections does not get more by it.
//
// Units: bytes on the wire; in memory an encrypted frame takes at most 2.5 times as much.
// Order: of a connection that gave out something, bytes count from the next CutOff on.
// Cost: a system call for each connection that was silent since the last CutOff.
// Threads: one. If a connection ends meanwhile, another one may be shut down in its place, whose dialler dials again.
// Tests: tests/unit/runtime/zmq/backlog_limit_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace downpour {

class BacklogLimit {
 public:
  // Twice what the receive queue of one connection holds of whole messages (sockets.cc), so that nobody who sends
  // such is cut off while we are busy.
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  // The windows of 64 workers, while we do not get to any of them.
  static constexpr uint64_t kMostTogether = uint64_t{512} << 20;

  explicit BacklogLimit(uint64_t most_together = kMostTogether) : most_together_(most_together) {}
  void Accepted(int fd);
  void Ended(int fd) { connections_.erase(fd); }
  void Heard(int fd);
  std::string AddressOf(int fd) const;  // that it had when it was accepted; empty: it had gone already
  struct Culprit {
    std::string address;
    uint64_t bytes = 0;
  };
  std::vector<Culprit> CutOff();

 private:
  struct Connection {
    std::string address;
    bool heard = false;
    std::optional<uint64_t> since = 0;  // what had come when it was first looked at after it was heard
  };
  const uint64_t most_together_;
  std::map<int, Connection> connections_;
};

}  // namespace downpour
