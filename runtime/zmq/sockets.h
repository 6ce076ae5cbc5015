// ZeroMQ sockets as this project uses them: the one place that sets options, each with its reason (sockets.cc).
//
//   auto context = ZmqContext::Create(/*io_threads=*/1);
//   auto listener = Listen(*context, "127.0.0.1:0");     // a ROUTER
//   auto link = Connect(*context, listener->endpoint()); // a DEALER
//
// With keys all TCP speaks CURVE, on loopback too; ipc speaks plainly, and its folder says who may. A listener with
// keys lets nobody in before a ZapHandler (zap_handler.h) of its context says so.
//
// Shapes: an endpoint is HOST:PORT, [IPV6]:PORT or ipc:///PATH; port 0 lets the kernel choose.
// Threads: a socket belongs to one thread; the context to any. Sockets must be closed before their context ends.
// Errors: INVALID_ARGUMENT for an endpoint that is none, FAILED_PRECONDITION for one that others could
//   reach where there are no keys, for one to dial whose key is not known, and for a libzmq older than
//   4.3.3 (holes before authentication), ALREADY_EXISTS for a port or path in use, RESOURCE_EXHAUSTED for want of
//   sockets or open files, which may pass. What cannot be reached is no error: ZeroMQ dials until it answers.
// Tests: tests/unit/runtime/zmq/sockets_test.cc.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <zmq.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/posix/keys.h"
#include "runtime/world_time.h"

namespace downpour {

class ZmqContext {
 public:
  // Sockets at a time: the links of a worker to as many ps as a job may have, three sockets each, twice, since those
  // that are hung up on take a while to go. ZeroMQ's own limit is 1,023.
  static constexpr int kMostSockets = 8192;
  static absl::StatusOr<ZmqContext> Create(int io_threads);
  // Its end waits until closed sockets have sent what they hold, as long as their linger says.
  zmq::context_t& get() { return context_; }

 private:
  explicit ZmqContext(zmq::context_t context) : context_(std::move(context)) {}
  zmq::context_t context_;
};

// Of a socket that ZeroMQ did not give: RESOURCE_EXHAUSTED or INTERNAL.
absl::Status NoSocket(const zmq::error_t& error);

class ZmqSocket {
 public:
  // `dials`: the endpoint as ZeroMQ spells it; empty for a listener.
  ZmqSocket(zmq::socket_t socket, std::string endpoint, std::string dials = "")
      : socket_(std::move(socket)), endpoint_(std::move(endpoint)), dials_(std::move(dials)) {}

  zmq::socket_t& get() { return socket_; }
  const std::string& endpoint() const { return endpoint_; }  // with the port that the kernel chose
  // Does not wait; what is queued has `linger` to leave. A socket that is not closed so drops it.
  void Close(Duration linger);
  // Of a dialler: ends its attempts and its connection, and begins again, with these keys as in Connect.
  void StopDialling();
  void DialAgain(const KeyRing* keys, PeerRole to);

 private:
  zmq::socket_t socket_;
  std::string endpoint_;
  std::string dials_;
};

// Null keys: there are none.
absl::StatusOr<ZmqSocket> Listen(ZmqContext& context, const std::string& endpoint, const KeyRing* keys = nullptr);
// `to` is who is to be there: nobody else has that key. `watch` gets the socket before it dials, to miss nothing.
using Watch = std::function<absl::Status(ZmqSocket&)>;
absl::StatusOr<ZmqSocket> Connect(ZmqContext& context, const std::string& endpoint, const KeyRing* keys = nullptr,
                                  PeerRole to = PeerRole::kChief, const Watch& watch = nullptr);

inline constexpr size_t kMostSocketPath = 107;  // bytes, as unix(7) has it
// Whether peers prove there by a key who they are: not at a path, nor without keys.
bool AdmitsByKey(const std::string& endpoint, bool with_keys);
// OK if `endpoint` is one to listen on: without keys only loopback and ipc. A path has at most kMostSocketPath bytes.
absl::Status CheckListenable(const std::string& endpoint, bool with_keys = false);
// OK if `endpoint` is one to connect to; whether anybody listens there is another question.
absl::Status CheckDialable(const std::string& endpoint);
}  // namespace downpour
