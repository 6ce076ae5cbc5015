// BoundedHttpServer: the HTTP library's server, with bounds of our own around each connection (http_stream.h), and
// around those of one peer (http_connections.h). Each connection takes one request.
//
// Errors: of OpenTls, INVALID_ARGUMENT for a certificate or private key that cannot be used, and for a private key that
//   every user may read.
// Tests: tests/unit/runtime/driver/bounded_http_server_test.cc, tests/process/test_service_door.py.
#pragma once

#include <httplib.h>
#include <openssl/ssl.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/driver/http_connections.h"

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

 private:
  bool process_and_close_socket(socket_t fd) override;
  void Serve(int fd);

  const TlsContext tls_;
  const PeerOf peer_of_;
  std::optional<HttpConnections> connections_;  // while it listens
};

}  // namespace downpour
