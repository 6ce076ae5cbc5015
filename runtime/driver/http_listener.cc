#include "runtime/driver/http_listener.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/host_port.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr time_t kSilenceSeconds = 5;
constexpr size_t kLeastTokenBytes = 16;

std::string TextIn(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  if (path.empty()) return std::string();
  struct stat at {};
  if (lstat(path.c_str(), &at) != 0 || !S_ISREG(at.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("the token file ", path, " is no file"));
  }
  if ((at.st_mode & 077) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("others may read the token file: chmod 600 ", ShellWord(path)));
  }
  std::string token = TextIn(path);
  absl::StripAsciiWhitespace(&token);
  if (token.size() >= kLeastTokenBytes) return token;
  return absl::InvalidArgumentError(absl::StrCat("the token in ", path, " is too short: at least ", kLeastTokenBytes,
                                                 " bytes, such as of openssl rand -hex 32"));
}

// In constant time, so that no one learns it letter by letter.
bool IsToken(const std::string& said, const std::string& token) {
  const std::string expected = "Bearer " + token;
  return !token.empty() && said.size() == expected.size() &&
         CRYPTO_memcmp(said.data(), expected.data(), expected.size()) == 0;
}

}  // namespace

int64_t UserOfConnection(const std::string& table, const std::string& peer_address, int peer_port, int own_port) {
  in_addr address{};
  if (inet_pton(AF_INET, peer_address.c_str(), &address) != 1) return -1;
  const std::string peer = absl::StrFormat("%08X:%04X", address.s_addr, peer_port);
  const std::string own = absl::StrFormat(":%04X", own_port);
  constexpr const char* kEstablished = "01";
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retries;
    int64_t user = -1, timeout = 0, inode = 0;
    words >> number >> local >> remote >> state >> queues >> timer >> retries >> user >> timeout >> inode;
    if (words && local == peer && absl::EndsWith(remote, own) && state == kEstablished && inode != 0) return user;
  }
  return -1;
}

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Open(const HttpSettings& settings, int most) {
  const std::optional<HostPort> listen = ParseHostPort(settings.listen);
  if (!listen)
    return absl::InvalidArgumentError(absl::StrCat("HOST:PORT is needed to listen at, not ", settings.listen));
  const std::string host = listen->host == "localhost" ? kLoopback : listen->host;
  const bool has_tls = !settings.certificate.empty() && !settings.key.empty();
  if (host != kLoopback && (settings.token_file.empty() || !has_tls)) {
    return absl::InvalidArgumentError(
        absl::StrCat("others can reach ", settings.listen,
                     ": give a token file, a certificate and its private key, or listen at 127.0.0.1:PORT"));
  }
  const absl::StatusOr<std::string> token = ReadToken(settings.token_file);
  if (!token.ok()) return token.status();
  std::unique_ptr<httplib::Server> http;
  if (has_tls) {
    http = std::make_unique<httplib::SSLServer>(settings.certificate.c_str(), settings.key.c_str());
  } else {
    http = std::make_unique<httplib::Server>();
  }
  if (!http->is_valid()) return absl::InvalidArgumentError("the certificate or its private key cannot be used");
  std::unique_ptr<HttpListener> listener(new HttpListener(std::move(http), *token));
  httplib::Server& server = listener->http();
  listener->port_ = listen->port == 0 ? server.bind_to_any_port(host) : listen->port;
  const bool bound = listen->port == 0 ? listener->port_ > 0 : server.bind_to_port(host, listen->port);
  if (!bound) return absl::UnavailableError(absl::StrCat("cannot listen at ", settings.listen, ": is it taken?"));
  listener->is_loopback_ = host == kLoopback;
  listener->address_ = absl::StrCat(has_tls ? "https" : "http", "://", ToString(HostPort{host, listener->port_}));
  server.new_task_queue = [most] { return new httplib::ThreadPool(static_cast<size_t>(most)); };
  server.set_keep_alive_max_count(1);
  server.set_read_timeout(kSilenceSeconds);
  server.set_write_timeout(kSilenceSeconds);
  return listener;
}

// The library's stop has no effect on a server that does not run yet.
void HttpListener::Stop() {
  while (!server_->is_running()) std::this_thread::yield();
  server_->stop();
}

absl::Status HttpListener::CheckHost(const httplib::Request& request) const {
  const std::string host = request.get_header_value("Host"), port = absl::StrCat(":", port_);
  if (!is_loopback_ || host == kLoopback + port || host == "localhost" + port) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("this server is ", address_, ", not ", OneLine(host, 100)));
}

absl::Status HttpListener::CheckCaller(const httplib::Request& request) const {
  const std::string host = request.get_header_value("Host"), origin = request.get_header_value("Origin");
  const bool is_cross_site = absl::StrContains(request.get_header_value("Sec-Fetch-Site"), "cross-site");
  if (is_cross_site || (!origin.empty() && origin != "http://" + host && origin != "https://" + host)) {
    return absl::PermissionDeniedError("a page of another site may not ask this server");
  }
  if (IsToken(request.get_header_value("Authorization"), token_)) return absl::OkStatus();
  if (is_loopback_) {
    const std::string table = TextIn("/proc/net/tcp");
    if (UserOfConnection(table, request.remote_addr, request.remote_port, port_) == static_cast<int64_t>(getuid())) {
      return absl::OkStatus();
    }
  }
  return absl::UnauthenticatedError("say who you are by Authorization: Bearer TOKEN, of this server's token file");
}

}  // namespace downpour
