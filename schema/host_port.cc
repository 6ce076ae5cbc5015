#include "schema/host_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

// Only what names and addresses are made of: ZeroMQ gives a meaning to more (a source address before a ';').
bool IsHost(const std::string& host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_' || c == ':' || c == '%';
  });
}

bool IsPort(const std::string& text, int* port) {
  const bool digits = !text.empty() && text.size() <= 5 && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  return digits && absl::SimpleAtoi(text, port) && *port <= 65535;
}

}  // namespace

std::optional<HostPort> ParseHostPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  HostPort parsed{text.substr(0, colon)};
  if (!IsPort(text.substr(colon + 1), &parsed.port)) return std::nullopt;
  const bool bracketed = parsed.host.front() == '[' && parsed.host.back() == ']';
  if (bracketed) parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  if (!IsHost(parsed.host) || (parsed.host.find(':') != std::string::npos) != bracketed) return std::nullopt;
  return parsed;
}

bool IsIpc(const std::string& endpoint) { return endpoint.rfind("ipc:///", 0) == 0; }

bool IsDialable(const std::string& endpoint) {
  const std::optional<HostPort> address = ParseHostPort(endpoint);
  return IsIpc(endpoint) || (address && address->port > 0);
}

std::string ToString(const HostPort& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return absl::StrCat(v6 ? "[" : "", address.host, v6 ? "]:" : ":", address.port);
}

bool IsLoopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace downpour
