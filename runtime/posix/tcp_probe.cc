#include "runtime/posix/tcp_probe.h"

#include <glog/logging.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/posix/fd.h"

namespace downpour {
namespace {

constexpr int kPatienceMs = 1000;

int Connect(const addrinfo& address) {
  const UniqueFd probe(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(probe.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd wait{probe.get(), POLLOUT, 0};
  if (poll(&wait, 1, kPatienceMs) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t bytes = sizeof(error);
  return getsockopt(probe.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

int Bind(const addrinfo& address) {
  const UniqueFd probe(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;  // as ZeroMQ does it: what lingers of an earlier process is no obstacle
  setsockopt(probe.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  return bind(probe.get(), address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
}

TcpProbe Try(const HostPort& address, int (*act)(const addrinfo&)) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (failure != 0) return {.no_address = gai_strerror(failure)};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  return {.no_address = "", .error = act(*addresses)};
}

}  // namespace

TcpProbe TryToConnect(const HostPort& address) { return Try(address, Connect); }

TcpProbe TryToListen(const HostPort& address) { return Try(address, Bind); }

std::string WhyOf(const TcpProbe& probe) {
  return probe.no_address.empty() ? absl::AsciiStrToLower(std::strerror(probe.error)) : probe.no_address;
}

std::string RemedyOf(const TcpProbe& probe, const std::string& whom) {
  if (!probe.no_address.empty()) return "correct the name, or add it to DNS or /etc/hosts of this host";
  if (probe.error == ECONNREFUSED) return absl::StrCat("start ", whom, ", or correct its port: that host is there");
  return "start that host, or open the port in the firewalls between";
}

void LogWhySilent(const std::string& whom, const std::string& endpoint) {
  const std::optional<HostPort> address = ParseHostPort(endpoint);
  if (!address) return;
  const TcpProbe probe = TryToConnect(*address);
  if (probe.ok()) {
    LOG(WARNING) << whom << " at " << endpoint
                 << " says nothing, though somebody listens there: it has stopped, is very "
                 << "busy, or is none of ours";
  } else {
    LOG(WARNING) << whom << " at " << endpoint << " cannot be reached: " << WhyOf(probe) << "; "
                 << RemedyOf(probe, whom);
  }
}

}  // namespace downpour
