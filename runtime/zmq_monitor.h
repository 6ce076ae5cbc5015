// What becomes of a socket's attempts to connect and to shake hands, which ZeroMQ itself only does and does not tell.
//
//   absl::StatusOr<WatchedSocket> link = ConnectWatched(context, endpoint);
//   while (link->monitor.Next() != ZmqMonitor::Event::kNone) ...
//
// Order: as it happened; from Watch on. What is refused is not tried again: whoever dials first and watches then may never
//   hear of it.
// Cost: ZeroMQ's thread waits where a thousand events were not read.
// Threads: that of the socket.
#pragma once

#include <string>
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

struct WatchedSocket {
  ZmqSocket socket;
  ZmqMonitor monitor;
};
// As Connect, watched from before the first attempt on.
absl::StatusOr<WatchedSocket> ConnectWatched(ZmqContext& context, const std::string& endpoint,
                                             const KeyRing* keys = nullptr, PeerRole to = PeerRole::kChief);

}  // namespace downpour
