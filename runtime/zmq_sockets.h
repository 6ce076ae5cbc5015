// ZeroMQ sockets as this project uses them: the one place that sets options, each with its reason (zmq_sockets.cc).
//
//   auto context = ZmqContext::Create(/*io_threads=*/1);
//   auto listener = Listen(*context, "127.0.0.1:0");     // a ROUTER
//   auto link = Connect(*context, listener->endpoint()); // a DEALER
//
// Shapes: an endpoint is HOST:PORT, [IPV6]:PORT or ipc:///PATH; port 0 lets the kernel choose.
// Threads: a socket belongs to one thread; the context to any. Sockets must be closed before their context ends.
// Errors: INVALID_ARGUMENT for an endpoint that is none, FAILED_PRECONDITION for one that others could reach (nothing
//   that is not encrypted listens there) and for a libzmq older than 4.3.3 (holes before authentication),
//   ALREADY_EXISTS for a port or path in use. What cannot be reached is no error: ZeroMQ dials until it answers.
// Tests: tests/unit/runtime/zmq_sockets_test.cc.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/world_time.h"

namespace downpour {

class ZmqContext {
 public:
  static absl::StatusOr<ZmqContext> Create(int io_threads);
  ZmqContext(ZmqContext&& other) noexcept;
  ZmqContext& operator=(ZmqContext&& other) noexcept;
  ~ZmqContext();  // waits until closed sockets have sent what they hold, as long as their linger says
  void* get() const { return context_; }

 private:
  explicit ZmqContext(void* context) : context_(context) {}
  void* context_ = nullptr;
};

class ZmqSocket {
 public:
  ZmqSocket(void* socket, std::string endpoint) : socket_(socket), endpoint_(std::move(endpoint)) {}
  ZmqSocket(ZmqSocket&& other) noexcept;
  ZmqSocket& operator=(ZmqSocket&& other) noexcept;
  ~ZmqSocket() { Close(Duration::zero()); }

  void* get() const { return socket_; }
  const std::string& endpoint() const { return endpoint_; }  // with the port that the kernel chose
  // Does not wait; what is queued has `linger` to leave.
  void Close(Duration linger);

 private:
  friend absl::StatusOr<ZmqSocket> Listen(const ZmqContext& context, const std::string& endpoint);
  void* socket_ = nullptr;
  std::string endpoint_;
};

absl::StatusOr<ZmqSocket> Listen(const ZmqContext& context, const std::string& endpoint);
absl::StatusOr<ZmqSocket> Connect(const ZmqContext& context, const std::string& endpoint);

// OK if `endpoint` may be listened on without keys: loopback and ipc.
absl::Status CheckListenable(const std::string& endpoint);
// OK if `endpoint` is one to connect to; whether anybody listens there is another question.
absl::Status CheckDialable(const std::string& endpoint);

}  // namespace downpour
