// PeerUsers: which user has the other end of a TCP connection on this machine.
//
//   const PeerUsers users;
//   const int64_t user = users.Of("127.0.0.1", peer_port, own_port);
//
// Order: the kernel is asked about the one connection. Its table of all is read only as long as it has told of none,
//   as a kernel without sock_diag does.
// Cost: some microseconds; of the table milliseconds.
// Errors: -1 where no such connection stands.
// Threads: any.
// Tests: tests/unit/runtime/http/peer_users_test.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace downpour {

// Of a text like /proc/net/tcp; -1: not told. A connection that its owner has closed is nobody's, and the kernel says 0
// for nobody: only one that stands counts.
int64_t UserOfConnection(const std::string& table, const std::string& peer_address, int peer_port, int own_port);

class PeerUsers {
 public:
  using Ask = std::function<std::optional<int64_t>(const std::string& peer_address, int peer_port, int own_port)>;
  using ReadTable = std::function<std::string()>;

  PeerUsers();  // of this machine's kernel
  PeerUsers(Ask ask, ReadTable read_table) : ask_(std::move(ask)), read_table_(std::move(read_table)) {}

  int64_t Of(const std::string& peer_address, int peer_port, int own_port) const;

 private:
  const Ask ask_;
  const ReadTable read_table_;
  mutable std::atomic<bool> does_tell_ = false;
};

}  // namespace downpour
