// Who may come in: answers ZeroMQ, which asks about each key that wants to speak to a listener (ZAP, over inproc).
//
//   const auto known = [&](const std::string& key) { return keys.RoleOf(key).has_value(); };
//   ZapHandler zap = ZapHandler::Open(context, known).value();
//   ZmqSocket listener = Listen(context, "0.0.0.0:7000", &keys).value();   // after the handler, else nobody is asked
//   ProveStrangersAreRefused(context, listener.endpoint(), keys, zap);
//   zap.Serve();                                                           // from an event loop
//
// Order: who is let in has its key as the User-Id of all its frames (ZmqChannel::speaker). Unanswered, nobody gets in.
// Cost: one question per handshake, some microseconds each; kBurst of them at a time.
// Errors: FAILED_PRECONDITION for a context that has a handler already.
// Threads: one. A handshake waits for Serve; after 3 s (sockets.cc) it has failed.
// Source: ZAP, rfc.zeromq.org/spec/27.
// Tests: tests/unit/runtime/zmq/zap_handler_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <zmq.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/posix/keys.h"
#include "runtime/zmq/sockets.h"

namespace downpour {

class ZapHandler {
 public:
  static constexpr int kBurst = 16;
  // `lets_in` judges a public key (Z85).
  static absl::StatusOr<ZapHandler> Open(ZmqContext& context, std::function<bool(const std::string&)> lets_in);

  // Answers without waiting. False: there are more questions.
  bool Serve();
  zmq::socket_t& socket() { return socket_; }                        // readable while questions wait
  const std::string& last_refused() const { return last_refused_; }  // the address; empty: none was

 private:
  ZapHandler(zmq::socket_t socket, std::function<bool(const std::string&)> lets_in)
      : socket_(std::move(socket)), lets_in_(std::move(lets_in)) {}

  zmq::socket_t socket_;
  std::function<bool(const std::string&)> lets_in_;
  std::string last_refused_;
};

// Dials `endpoint` as a stranger would, with a key that nobody knows. PERMISSION_DENIED unless it is refused, which
// takes a moment; where nothing comes of it, half a minute: nothing may listen on then.
absl::Status ProveStrangersAreRefused(ZmqContext& context, const std::string& endpoint, const KeyRing& keys,
                                      ZapHandler& zap);

}  // namespace downpour
