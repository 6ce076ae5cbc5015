// HttpListener: an HTTP server of this machine's user, and who may speak to it (docs/SECURITY.md).
//
//   absl::StatusOr<std::unique_ptr<HttpListener>> listener =
//       HttpListener::Open({.listen = "127.0.0.1:7000"}, /*most=*/64);
//   (*listener)->http().Get("/metrics", ...);
//   (*listener)->http().set_pre_routing_handler(...CheckHost, CheckCaller...);
//   (*listener)->Run();    // until Stop, from any thread
//
// Who may: on loopback a process of the same user, as the kernel tells it. Elsewhere, and for other users, whoever has
//   the token. Other tokens have some of its rights. Requests that a web page of another site makes are refused, by
//   their Origin, and by their Host, which names this server and nothing else.
// Bounds: those of stream.h and connections.h. One request for each connection, unless bounded_server.h keeps it: so
//   what a refused request's body says is never taken for another request.
// Errors: INVALID_ARGUMENT for an address that needs a token and TLS; UNAVAILABLE where it cannot be bound.
// Tests: tests/unit/runtime/http/listener_test.cc, status_server_test.cc, tests/process/test_job_service.py,
//   test_service_door.py.
#pragma once

#include <httplib.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/http/peer_users.h"

namespace downpour {

class BoundedHttpServer;

struct HttpSettings {
  std::string listen = "127.0.0.1:0";
  std::string token_file = {};             // of mode 0600
  std::string certificate = {}, key = {};  // files, PEM
  // Likewise. Whoever looks reads all and changes nothing. The others have the right of their name; a deployer looks
  // and asks as well, a submitter looks.
  std::string viewer_token_file = {}, asker_token_file = {}, submitter_token_file = {}, deployer_token_file = {};
};

// What a caller may do, as bits: a request names those of which any one will do.
using Rights = unsigned;
inline constexpr Rights kMayLook = 1, kMayAsk = 2, kMaySubmit = 4, kMayDeploy = 8;
inline constexpr Rights kMayAll = kMayLook | kMayAsk | kMaySubmit | kMayDeploy;

// What is in a file of mode 0600. Empty path: nothing.
absl::StatusOr<std::string> ReadToken(const std::string& path);

class HttpListener {
 public:
  // `most`: connections at a time, of which one peer may have half.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Open(const HttpSettings& settings, int most);

  ~HttpListener();
  httplib::Server& http();
  const std::string& address() const { return address_; }  // http://127.0.0.1:7000
  void Run();
  void Stop();  // also of one that is about to run

  absl::Status CheckHost(const httplib::Request& request) const;
  absl::Status CheckCaller(const httplib::Request& request, Rights any_of) const;
  // Requests behind which a connection stays open (bounded_server.h). Before Run.
  void KeepWhere(std::function<bool(const httplib::Request&)> keeps);

 private:
  struct Token {
    std::string secret;
    Rights rights;
    const char* owner;  // "a viewer's"
  };
  HttpListener() = default;
  absl::Status ReadTokens(const HttpSettings& settings);
  std::string PeerOf(int fd) const;

  const PeerUsers users_;
  std::unique_ptr<BoundedHttpServer> server_;
  std::vector<Token> tokens_;
  std::string address_;
  int port_ = 0;
  bool is_loopback_ = true;
};

}  // namespace downpour
