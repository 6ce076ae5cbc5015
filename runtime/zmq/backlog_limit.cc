#include "runtime/zmq/backlog_limit.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>

namespace downpour {
namespace {

// What came over a connection since it stands; 0 for a descriptor that is none.
uint64_t Received(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 ? info.tcpi_bytes_received : 0;
}

std::string PeerOf(int fd) {
  sockaddr_storage peer{};
  socklen_t bytes = sizeof(peer);
  auto* address = reinterpret_cast<sockaddr*>(&peer);
  char host[NI_MAXHOST] = "";
  if (getpeername(fd, address, &bytes) == 0) {
    getnameinfo(address, bytes, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  }
  return host;
}

}  // namespace

void BacklogLimit::Accepted(int fd) { connections_[fd] = {.address = PeerOf(fd)}; }

std::string BacklogLimit::AddressOf(int fd) const {
  const auto found = connections_.find(fd);
  return found == connections_.end() ? "" : found->second.address;
}

void BacklogLimit::Heard(int fd) {
  if (auto found = connections_.find(fd); found != connections_.end()) found->second.heard = true;
}

std::vector<BacklogLimit::Culprit> BacklogLimit::CutOff() {
  std::vector<std::pair<uint64_t, int>> gathered;  // bytes, over which connection
  uint64_t together = 0;
  for (auto& [fd, connection] : connections_) {
    if (std::exchange(connection.heard, false)) {
      connection.since.reset();
      continue;
    }
    const uint64_t received = Received(fd);
    if (!connection.since) connection.since = received;
    gathered.emplace_back(received - std::min(received, *connection.since), fd);
    together += gathered.back().first;
  }
  std::sort(gathered.rbegin(), gathered.rend());
  std::vector<Culprit> cut;
  for (const auto& [bytes, fd] : gathered) {
    if (bytes < kMaxBytes && together <= most_together_) break;
    cut.push_back({AddressOf(fd), bytes});
    shutdown(fd, SHUT_RDWR);  // ZeroMQ, who owns it, sees the end and closes it
    *connections_.at(fd).since += bytes;
    together -= bytes;
  }
  return cut;
}

}  // namespace downpour
