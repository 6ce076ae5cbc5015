#include "runtime/http/listener.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/http/bounded_server.h"
#include "schema/host_port.h"
#include "schema/secret.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr size_t kLeastTokenBytes = 16;

std::string TextIn(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool IsToken(const std::string& said, const std::string& token) {
  return !token.empty() && IsSecret(said, "Bearer " + token);
}

// "look, ask for predictions".
std::string WordsOf(Rights rights) {
  constexpr std::pair<Rights, const char*> kWords[] = {
      {kMayLook, "look"}, {kMayAsk, "ask for predictions"}, {kMaySubmit, "submit jobs"}, {kMayDeploy, "deploy models"}};
  std::vector<std::string> words;
  for (const auto& [right, word] : kWords) {
    if ((rights & right) != 0) words.emplace_back(word);
  }
  return absl::StrJoin(words, ", ");
}

}  // namespace

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
  absl::StatusOr<TlsContext> tls = has_tls ? OpenTls(settings.certificate, settings.key) : TlsContext();
  if (!tls.ok()) return tls.status();
  std::unique_ptr<HttpListener> listener(new HttpListener());
  if (const absl::Status status = listener->ReadTokens(settings); !status.ok()) return status;
  const auto peer_of = [listener = listener.get()](int fd) { return listener->PeerOf(fd); };
  listener->server_ = std::make_unique<BoundedHttpServer>(most, *std::move(tls), peer_of);
  httplib::Server& server = listener->http();
  // The library's own options would let two programs listen at one port.
  server.set_socket_options([](int fd) {
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  listener->port_ = listen->port == 0 ? server.bind_to_any_port(host) : listen->port;
  const bool bound = listen->port == 0 ? listener->port_ > 0 : server.bind_to_port(host, listen->port);
  if (!bound) return absl::UnavailableError(absl::StrCat("cannot listen at ", settings.listen, ": is it taken?"));
  listener->is_loopback_ = host == kLoopback;
  listener->address_ = absl::StrCat(has_tls ? "https" : "http", "://", ToString(HostPort{host, listener->port_}));
  return listener;
}

absl::Status HttpListener::ReadTokens(const HttpSettings& settings) {
  const struct {
    const std::string& file;
    Rights rights;
    const char* owner;
  } kinds[] = {{settings.token_file, kMayAll, "the service's own"},
               {settings.viewer_token_file, kMayLook, "a viewer's"},
               {settings.asker_token_file, kMayAsk, "an asker's"},
               {settings.submitter_token_file, kMayLook | kMaySubmit, "a submitter's"},
               {settings.deployer_token_file, kMayLook | kMayAsk | kMayDeploy, "a deployer's"}};
  for (const auto& kind : kinds) {
    absl::StatusOr<std::string> secret = ReadToken(kind.file);
    if (!secret.ok()) return secret.status();
    if (!secret->empty()) tokens_.push_back({*std::move(secret), kind.rights, kind.owner});
  }
  return absl::OkStatus();
}

HttpListener::~HttpListener() = default;

httplib::Server& HttpListener::http() { return *server_; }
void HttpListener::KeepWhere(std::function<bool(const httplib::Request&)> keeps) {
  server_->KeepWhere(std::move(keeps));
}
void HttpListener::Run() { server_->Listen(); }
void HttpListener::Stop() { server_->Stop(); }

// On loopback all have one address, and their users tell them apart.
std::string HttpListener::PeerOf(int fd) const {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof(host), port, sizeof(port),
              NI_NUMERICHOST | NI_NUMERICSERV);
  if (!is_loopback_) return host;
  return absl::StrCat("user ", users_.Of(host, std::atoi(port), port_));
}

absl::Status HttpListener::CheckHost(const httplib::Request& request) const {
  const std::string host = request.get_header_value("Host"), port = absl::StrCat(":", port_);
  if (!is_loopback_ || host == kLoopback + port || host == "localhost" + port) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("this server is ", address_, ", not ", OneLine(host, 100)));
}

absl::Status HttpListener::CheckCaller(const httplib::Request& request, Rights any_of) const {
  const std::string host = request.get_header_value("Host"), origin = request.get_header_value("Origin");
  const bool is_cross_site = absl::StrContains(request.get_header_value("Sec-Fetch-Site"), "cross-site");
  if (is_cross_site || (!origin.empty() && origin != "http://" + host && origin != "https://" + host)) {
    return absl::PermissionDeniedError("a page of another site may not ask this server");
  }
  const std::string said = request.get_header_value("Authorization");
  for (const Token& token : tokens_) {
    if (!IsToken(said, token.secret)) continue;
    if ((token.rights & any_of) != 0) return absl::OkStatus();
    return absl::PermissionDeniedError(absl::StrCat("this token is ", token.owner, ", who may ", WordsOf(token.rights),
                                                    ": it takes one that may ", WordsOf(any_of),
                                                    ", or the service's own token"));
  }
  if (is_loopback_) {
    if (users_.Of(request.remote_addr, request.remote_port, port_) == static_cast<int64_t>(getuid())) {
      return absl::OkStatus();
    }
  }
  return absl::UnauthenticatedError("say who you are by Authorization: Bearer TOKEN, of this server's token file");
}

}  // namespace downpour
