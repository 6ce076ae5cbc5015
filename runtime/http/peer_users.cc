#include "runtime/http/peer_users.h"

#include <arpa/inet.h>

#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "runtime/posix/socket_diag.h"

namespace downpour {
namespace {

std::string TableOfConnections() {
  std::ifstream file("/proc/net/tcp");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
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

PeerUsers::PeerUsers() : PeerUsers(UserBySocketDiag, TableOfConnections) {}

// A kernel that told of one connection tells of each that stands. Its table would say the same of the others, but takes
// milliseconds, in which nobody else is let in: whoever opens and closes connections could keep all out.
int64_t PeerUsers::Of(const std::string& peer_address, int peer_port, int own_port) const {
  const std::optional<int64_t> told = ask_(peer_address, peer_port, own_port);
  if (told) does_tell_ = true;
  if (told || does_tell_) return told.value_or(-1);
  return UserOfConnection(read_table_(), peer_address, peer_port, own_port);
}

}  // namespace downpour
