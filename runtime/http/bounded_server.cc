#include "runtime/http/bounded_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/http/connections.h"
#include "runtime/http/stream.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr auto kPause = std::chrono::milliseconds(20);  // where no connection can be taken

// A passphrase is asked of nobody: a service has no terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

int64_t BodyBytes(const httplib::Request& request) {
  if (request.has_header("Transfer-Encoding")) return -1;
  return static_cast<int64_t>(request.get_header_value<uint64_t>("Content-Length"));
}

// Its body, if it has one, ends where one length says.
bool HasPlainFraming(const httplib::Request& request) {
  return !request.has_header("Transfer-Encoding") && request.get_header_value_count("Content-Length") <= 1;
}

// The library would choose Brotli, at its highest level: a second of processor time for each megabyte.
void LeaveGzipAlone(httplib::Request* request) {
  constexpr const char* kEncodings = "Accept-Encoding";
  const bool takes_gzip = TakesGzip(request->get_header_value(kEncodings));
  request->headers.erase(kEncodings);
  if (takes_gzip) request->set_header(kEncodings, "gzip");
}

}  // namespace

bool TakesGzip(const std::string& accept_encoding) {
  for (const absl::string_view item : absl::StrSplit(accept_encoding, ',')) {
    const std::pair<absl::string_view, absl::string_view> coding = absl::StrSplit(item, absl::MaxSplits(';', 1));
    if (!absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(coding.first), "gzip")) continue;
    absl::string_view weight = absl::StripAsciiWhitespace(coding.second);
    double quality = 0;
    if (weight.empty()) return true;
    return (absl::ConsumePrefix(&weight, "q=") || absl::ConsumePrefix(&weight, "Q=")) &&
           absl::SimpleAtod(weight, &quality) && quality > 0;
  }
  return false;
}

// The library's servers do not use that member, but hand it on to the handlers.
bool HasPeerGone(const httplib::Request& request) { return request.progress && !request.progress(0, 0); }

absl::StatusOr<TlsContext> OpenTls(const std::string& certificate, const std::string& key) {
  struct stat at {};
  if (stat(key.c_str(), &at) == 0 && (at.st_mode & 07) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("others may read the private key: chmod 600 ", ShellWord(key)));
  }
  TlsContext tls(SSL_CTX_new(TLS_server_method()));
  SSL_CTX_set_default_passwd_cb(tls.get(), NoPassphrase);
  if (SSL_CTX_set_min_proto_version(tls.get(), TLS1_2_VERSION) == 1 &&
      SSL_CTX_use_certificate_chain_file(tls.get(), certificate.c_str()) == 1 &&
      SSL_CTX_use_PrivateKey_file(tls.get(), key.c_str(), SSL_FILETYPE_PEM) == 1 &&
      SSL_CTX_check_private_key(tls.get()) == 1) {
    return tls;
  }
  return absl::InvalidArgumentError(absl::StrCat("the certificate ", certificate, " and its private key ", key,
                                                 " cannot be used: they must be PEM files that belong together"));
}

BoundedHttpServer::BoundedHttpServer(int most, TlsContext tls, PeerOf peer_of)
    : most_(most), tls_(std::move(tls)), peer_of_(std::move(peer_of)) {}

BoundedHttpServer::~BoundedHttpServer() {
  if (svr_sock_ != INVALID_SOCKET) close(svr_sock_);
}

void BoundedHttpServer::Listen() {
  ::listen(svr_sock_, SOMAXCONN);  // the library lets 5 wait, so that a few dozen clients at once find it reset
  HttpConnections connections(most_, [this, &connections](int fd) { Serve(fd, connections); });
  while (!stops_) {
    UniqueFd fd(accept4(svr_sock_, nullptr, nullptr, SOCK_CLOEXEC));
    if (fd.ok()) {
      std::string peer = peer_of_(fd.get());
      connections.Add(std::move(fd), peer);
    } else if (!stops_ && errno != EINTR && errno != ECONNABORTED) {
      std::this_thread::sleep_for(kPause);
    }
  }
}

void BoundedHttpServer::Stop() {
  stops_ = true;
  shutdown(svr_sock_, SHUT_RDWR);  // so that accept4 returns
}

void BoundedHttpServer::Serve(int fd, HttpConnections& connections) {
  HttpStream stream(fd, tls_.get());
  if (!stream.ShakeHands()) return;
  const auto goes_on = [&] { return !stops_ && !connections.IsSomeoneWaiting(); };
  for (int served = 1; ServeOne(stream, served < kTurn || goes_on()); ++served) {
    if (!stream.BeginNext(kIdle, goes_on)) break;
  }
  stream.Finish();
}

// Whether another request may follow, which the answer's head tells the client.
bool BoundedHttpServer::ServeOne(HttpStream& stream, bool may_be_kept) {
  bool closed = false, is_kept = false;
  const bool answered = process_request(stream, /*close_connection=*/false, closed, [&](httplib::Request& request) {
    request.ssl = stream.tls();
    request.progress = [&stream](uint64_t, uint64_t) { return !stream.HasPeerGone(); };
    LeaveGzipAlone(&request);
    stream.HeadIsRead(BodyBytes(request));
    is_kept = may_be_kept && HasPlainFraming(request) && keeps_(request);
    if (is_kept) return;
    request.headers.erase("Connection");
    request.set_header("Connection", "close");
  });
  return answered && is_kept && !closed && stream.IsBodyRead();
}

}  // namespace downpour
