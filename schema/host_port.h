// Endpoints as people write them: HOST:PORT, checked and cut in two, or ipc:///PATH.
//
// Shapes: NAME:PORT, IPV4:PORT or [IPV6]:PORT; a host is what names and addresses are made of and nothing else, since
//   ZeroMQ gives a meaning to more.
// Tests: tests/unit/schema/host_port_test.cc.
#pragma once

#include <optional>
#include <string>

namespace downpour {

struct HostPort {
  std::string host;  // without brackets
  int port = 0;      // 0 to 65535
};
std::optional<HostPort> ParseHostPort(const std::string& text);

bool IsIpc(const std::string& endpoint);

// Whether somebody may be reached there: ipc:///PATH, or HOST:PORT with another port than 0.
bool IsDialable(const std::string& endpoint);

// Whether a host that is given as a number is this machine and no other: 127.0.0.0/8 or ::1.
bool IsLoopback(const std::string& host);

// With brackets where the host is an IPv6 address.
std::string ToString(const HostPort& address);

}  // namespace downpour
