// The user of a TCP connection's other end on this machine, as the kernel tells it of that connection alone.
//
// Cost: some microseconds, however many connections there are. /proc/net/tcp takes milliseconds, since the kernel walks
//   through its whole table.
// Source: sock_diag(7), inet_diag_req_v2.
// Tests: tests/unit/runtime/posix/socket_diag_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace downpour {

// Of the connection from `peer_address`:`peer_port` to `own_port` of 127.0.0.1. Nothing: no such connection stands, or
// this kernel does not tell.
std::optional<int64_t> UserBySocketDiag(const std::string& peer_address, int peer_port, int own_port);

}  // namespace downpour
