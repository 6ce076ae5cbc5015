// What becomes of a socket's attempts to connect and to shake hands, which ZeroMQ itself only does and does not tell.
//
//   absl::StatusOr<ZmqMonitor> monitor = ZmqMonitor::Watch(context, socket);
//   while (monitor->Next() != ZmqMonitor::Event::kNone) ...
//
// Order: as it happened; from Watch on.
// Cost: ZeroMQ's thread waits where a thousand events were not read.
// Threads: that of the socket.
#pragma once

#include <zmq.hpp>

#include "absl/status/statusor.h"
#include "runtime/zmq_sockets.h"

namespace downpour {

class ZmqMonitor {
 public:
  static absl::StatusOr<ZmqMonitor> Watch(ZmqContext& context, ZmqSocket& socket);

  enum class Event {
    kNone,            // nothing has happened since
    kNotConnected,    // nobody took the call; ZeroMQ tries again
    kShookHands,      // a peer is there and both agreed
    kKeyRefused,      // the listener does not let this key in
    kNoCommonSpeech,  // another mechanism, another listener's key, or no ZeroMQ at all
  };
  // Does not wait.
  Event Next();
  zmq::socket_t& socket() { return socket_; }

 private:
  explicit ZmqMonitor(zmq::socket_t socket) : socket_(std::move(socket)) {}
  zmq::socket_t socket_;
};

}  // namespace downpour
