// BoundedHttpServer: the HTTP library's server, with bounds of our own around each connection (stream.h), and
// around those of one peer (connections.h). Each connection takes one request.
//
//   server.Listen();   // at the port that the library's server is bound to, until Stop, from any thread
//
// Errors: of OpenTls, INVALID_ARGUMENT for a certificate or private key that cannot be used, and for a private key that
//   every user may read.
// Tests: tests/unit/runtime/http/bounded_server_test.cc, tests/process/test_service_door.py.
#pragma once

#include <httplib.h>
#include <openssl/ssl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace downpour {

struct FreeTls {
  void operator()(SSL_CTX* it) const { SSL_CTX_free(it); }
};
using TlsContext = std::unique_ptr<SSL_CTX, FreeTls>;
// Of PEM files. TLS 1.2 or later.
absl::StatusOr<TlsContext> OpenTls(const std::string& certificate, const std::string& key);

// Whether an Accept-Encoding allows gzip by name, with a weight above 0.
// Source: RFC 9110, 12.5.3.
bool TakesGzip(const std::string& accept_encoding);

class BoundedHttpServer final : public httplib::Server {
 public:
  using PeerOf = std::function<std::string(int fd)>;
  // `most`: connections at a time. `peer_of`: whose a connection is. Null `tls`: in the clear.
  BoundedHttpServer(int most, TlsContext tls, PeerOf peer_of);
  ~BoundedHttpServer() override;

  // In place of the library's listen_after_bind, which ends for good where a connection cannot be taken, as while the
  // system has no descriptor left. Here that is tried again.
  void Listen();
  void Stop();  // also of one that is yet to listen

 private:
  void Serve(int fd);

  const int most_;
  const TlsContext tls_;
  const PeerOf peer_of_;
  std::atomic<bool> stops_ = false;
};

}  // namespace downpour
