#include "runtime/zmq/monitor.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {

absl::StatusOr<ZmqMonitor> ZmqMonitor::Watch(ZmqContext& context, ZmqSocket& socket) {
  void* watched = socket.get().handle();
  const std::string address = absl::StrCat("inproc://monitor-", reinterpret_cast<uintptr_t>(watched));
  constexpr int kWanted = ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                          ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                          ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_DISCONNECTED;
  try {
    zmq::socket_t reader(context.get(), zmq::socket_type::pair);
    if (zmq_socket_monitor(watched, address.c_str(), kWanted) != 0) throw zmq::error_t();
    reader.connect(address);
    return ZmqMonitor(std::move(reader), watched);
  } catch (const zmq::error_t& error) {
    return NoSocket(error);
  }
}

// ZeroMQ's thread may wait for room for one more event, with a lock in hand that ending the watch takes, too.
ZmqMonitor::~ZmqMonitor() {
  zmq::message_t event;
  while (watched_ != nullptr && zmq_msg_recv(event.handle(), socket_.handle(), ZMQ_DONTWAIT) >= 0) continue;
}

ZmqMonitor::Event ZmqMonitor::Next() {
  zmq::message_t what, where;
  if (zmq_msg_recv(what.handle(), socket_.handle(), ZMQ_DONTWAIT) < 0) return Event::kNone;
  zmq_msg_recv(where.handle(), socket_.handle(), ZMQ_DONTWAIT);  // an event comes whole
  uint16_t event = 0;
  int32_t value = 0;  // of some events the descriptor, of others what went wrong
  if (what.size() < sizeof(event) + sizeof(value)) return Event::kNone;
  std::memcpy(&event, what.data(), sizeof(event));
  std::memcpy(&value, what.data<char>() + sizeof(event), sizeof(value));
  fd_ = value;
  switch (event) {
    case ZMQ_EVENT_CONNECT_RETRIED:
      return Event::kNotConnected;
    case ZMQ_EVENT_ACCEPTED:
      return Event::kAccepted;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      return Event::kShookHands;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return Event::kKeyRefused;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      return Event::kNoCommonSpeech;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      return value == EPIPE || value == ECONNRESET ? Event::kHungUp : Event::kTimedOut;
    case ZMQ_EVENT_DISCONNECTED:
      return Event::kEnded;
    default:
      return Event::kNone;
  }
}

absl::StatusOr<WatchedSocket> ConnectWatched(ZmqContext& context, const std::string& endpoint, const KeyRing* keys,
                                             PeerRole to) {
  std::optional<ZmqMonitor> monitor;
  absl::StatusOr<ZmqSocket> socket = Connect(context, endpoint, keys, to, [&](ZmqSocket& dialler) {
    absl::StatusOr<ZmqMonitor> watch = ZmqMonitor::Watch(context, dialler);
    if (watch.ok()) monitor.emplace(*std::move(watch));
    return watch.status();
  });
  if (!socket.ok()) return socket.status();
  return WatchedSocket{*std::move(socket), *std::move(monitor)};
}

}  // namespace downpour
