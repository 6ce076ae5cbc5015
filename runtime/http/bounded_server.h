// BoundedHttpServer: the HTTP library's server, with bounds of our own around each connection (stream.h), and
// around those of one peer (connections.h). A connection takes one request, and further ones where KeepWhere allows it.
//
//   server.KeepWhere([](const httplib::Request& request) {...});
//   server.Listen();   // at the port that the library's server is bound to, until Stop, from any thread
//
// Order: a connection is kept only if its request's body was read exactly to its announced end, so that no byte of it
//   is taken for another request. A kept one ends after kTurn requests where other connections wait to be served.
// Errors: of OpenTls, INVALID_ARGUMENT for a certificate or private key that cannot be used, and for a private key that
//   every user may read.
// Tests: tests/unit/runtime/http/bounded_server_test.cc, tests/process/test_service_door.py.
#pragma once

#include <httplib.h>
#include <openssl/ssl.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace downpour {

class HttpConnections;
class HttpStream;

struct FreeTls {
  void operator()(SSL_CTX* it) const { SSL_CTX_free(it); }
};
using TlsContext = std::unique_ptr<SSL_CTX, FreeTls>;
// Of PEM files. TLS 1.2 or later.
absl::StatusOr<TlsContext> OpenTls(const std::string& certificate, const std::string& key);

// Whether an Accept-Encoding allows gzip by name, with a weight above 0.
// Source: RFC 9110, 12.5.3.
bool TakesGzip(const std::string& accept_encoding);

// Whether whoever sent this request has hung up since, to a handler of it. A system call.
bool HasPeerGone(const httplib::Request& request);

class BoundedHttpServer final : public httplib::Server {
 public:
  using PeerOf = std::function<std::string(int fd)>;
  using Keeps = std::function<bool(const httplib::Request&)>;
  static constexpr int kTurn = 64;
  static constexpr auto kIdle = std::chrono::seconds(30);  // between two requests
  // `most`: connections at a time. `peer_of`: whose a connection is. Null `tls`: in the clear.
  BoundedHttpServer(int most, TlsContext tls, PeerOf peer_of);
  ~BoundedHttpServer() override;

  // Whether the connection may carry another request behind this one, by its head. Before Listen.
  void KeepWhere(Keeps keeps) { keeps_ = std::move(keeps); }
  // In place of the library's listen_after_bind, which ends for good where a connection cannot be taken, as while the
  // system has no descriptor left. Here that is tried again.
  void Listen();
  void Stop();  // also of one that is yet to listen

 private:
  void Serve(int fd, HttpConnections& connections);
  bool ServeOne(HttpStream& stream, bool may_be_kept);

  const int most_;
  const TlsContext tls_;
  const PeerOf peer_of_;
  Keeps keeps_ = [](const httplib::Request&) { return false; };
  std::atomic<bool> stops_ = false;
};

}  // namespace downpour
