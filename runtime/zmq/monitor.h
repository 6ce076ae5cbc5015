// What becomes of a socket's attempts to connect and to shake hands, which ZeroMQ itself only does and does not tell.
//
//   absl::StatusOr<WatchedSocket> link = ConnectWatched(context, endpoint);
//   while (link->monitor.Next() != ZmqMonitor::Event::kNone) ...
//
// Order: as it happened; from Watch on. After kKeyRefused and kNoCommonSpeech ZeroMQ does not try again: whoever dials
//   first and watches then may never hear of it. After kHungUp it tries again at once, for ever.
// Cost: ZeroMQ's thread waits where a thousand events were not read.
// Threads: that of the socket, which must outlive its monitor.
// Tests: tests/unit/runtime/zmq/monitor_test.cc.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <zmq.hpp>

#include "absl/status/statusor.h"
#include "runtime/zmq/sockets.h"

namespace downpour {

class ZmqMonitor {
 public:
  static absl::StatusOr<ZmqMonitor> Watch(ZmqContext& context, ZmqSocket& socket);
  ZmqMonitor(ZmqMonitor&&) = default;
  ZmqMonitor& operator=(ZmqMonitor&&) = default;
  ~ZmqMonitor();

  enum class Event {
    kNone,            // nothing has happened since
    kNotConnected,    // nobody took the call; ZeroMQ tries again
    kAccepted,        // a listener has a connection more
    kShookHands,      // a peer is there and both agreed
    kKeyRefused,      // the listener does not let this key in
    kNoCommonSpeech,  // another mechanism, or no ZeroMQ at all; of a listener also: another listener's key
    kHungUp,          // the other side went in mid-handshake, as a listener does that was dialled by another one's key
    kTimedOut,        // a handshake
    kEnded,           // a connection
  };
  // Does not wait.
  Event Next();
  int fd() const { return fd_; }  // of the last event's connection, if it was kAccepted or kEnded
  zmq::socket_t& socket() { return socket_; }

 private:
  // Ends the watch while its reader is still there: ZeroMQ's thread would wait for ever to tell somebody who has left.
  struct Unwatch {
    void operator()(void* watched) const { zmq_socket_monitor(watched, nullptr, 0); }
  };
  ZmqMonitor(zmq::socket_t socket, void* watched) : socket_(std::move(socket)), watched_(watched) {}
  zmq::socket_t socket_;
  std::unique_ptr<void, Unwatch> watched_;  // after the reader: it ends first
  int fd_ = -1;
};

struct WatchedSocket {
  ZmqSocket socket;
  ZmqMonitor monitor;
};
// As Connect, watched from before the first attempt on.
absl::StatusOr<WatchedSocket> ConnectWatched(ZmqContext& context, const std::string& endpoint,
                                             const KeyRing* keys = nullptr, PeerRole to = PeerRole::kChief);

}  // namespace downpour
