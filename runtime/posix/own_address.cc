#include "runtime/posix/own_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>

#include "runtime/posix/fd.h"
#include "schema/host_port.h"

namespace downpour {
namespace {

constexpr const char* kAllOfIpv4 = "0.0.0.0";
constexpr const char* kAllOfIpv6 = "::";
// Addresses for documentation: packets to them would take the default route.
constexpr const char* kElsewhereIpv4 = "192.0.2.1";
constexpr const char* kElsewhereIpv6 = "2001:db8::1";

std::string NumberOf(const sockaddr* address, socklen_t bytes) {
  char number[NI_MAXHOST] = {};
  const bool known = getnameinfo(address, bytes, number, sizeof(number), nullptr, 0, NI_NUMERICHOST) == 0;
  return known ? number : "";
}

// Not the addresses of one link alone (fe80::1%eth0) either: they mean nothing on other hosts.
bool ReachesOtherHosts(const std::string& number) {
  return !number.empty() && !IsLoopback(number) && number != kAllOfIpv4 && number != kAllOfIpv6 &&
         number.find('%') == std::string::npos;
}

std::optional<std::string> SourceOfRoute(const addrinfo& to) {
  const UniqueFd probe(socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.ok() || connect(probe.get(), to.ai_addr, to.ai_addrlen) != 0) return std::nullopt;
  sockaddr_storage own{};
  socklen_t bytes = sizeof(own);
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  if (getsockname(probe.get(), address, &bytes) != 0) return std::nullopt;
  const std::string number = NumberOf(address, bytes);
  return ReachesOtherHosts(number) ? std::optional(number) : std::nullopt;
}

std::optional<std::string> AddressTowardsHost(const std::string& host, int family, int flags) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (std::optional<std::string> own = SourceOfRoute(*one)) return own;
  }
  return std::nullopt;
}

std::optional<std::string> AddressOfAnInterface(int family) {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(found, freeifaddrs);
  for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != family || (one->ifa_flags & IFF_UP) == 0) continue;
    const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (std::string number = NumberOf(one->ifa_addr, bytes); ReachesOtherHosts(number)) return number;
  }
  return std::nullopt;
}

std::string OwnAddress(bool only_ipv4, const std::string& towards) {
  const std::optional<HostPort> peer = ParseHostPort(towards);
  if (peer) {
    const int family = only_ipv4 ? AF_INET : AF_UNSPEC;
    if (const auto own = AddressTowardsHost(peer->host, family, /*flags=*/0)) return *own;
  }
  if (const auto own = AddressTowards(kElsewhereIpv4, AF_INET)) return *own;
  if (const auto own = AddressOfAnInterface(AF_INET)) return *own;
  if (only_ipv4) return "127.0.0.1";
  if (const auto own = AddressTowards(kElsewhereIpv6, AF_INET6)) return *own;
  return AddressOfAnInterface(AF_INET6).value_or("127.0.0.1");
}

}  // namespace

std::optional<std::string> AddressTowards(const std::string& number, int family) {
  return AddressTowardsHost(number, family, AI_NUMERICHOST);
}

std::string AsOthersReachIt(const std::string& endpoint, const std::string& towards) {
  std::optional<HostPort> address = ParseHostPort(endpoint);
  if (!address || (address->host != kAllOfIpv4 && address->host != kAllOfIpv6)) return endpoint;
  address->host = OwnAddress(address->host == kAllOfIpv4, towards);
  return ToString(*address);
}

}  // namespace downpour
