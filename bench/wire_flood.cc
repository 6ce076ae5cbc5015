#include "bench/wire_flood.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <random>

namespace downpour {
namespace {

constexpr int kUnknown = 50, kHalfOpen = 100;
constexpr int kJunkEveryMs = 5;

UniqueFd Dial(const std::string& endpoint) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to));
  return fd;
}

}  // namespace

WireFlood::WireFlood(const std::string& endpoint, const KeyRing& keys) : endpoint_(endpoint) {
  for (int i = 0; i < kUnknown; ++i) {
    KeyRing stranger = keys;
    stranger.own = MakeCurvePair();
    unknown_.push_back(Connect(context_, endpoint, &stranger, PeerRole::kPs).value());
  }
  for (int i = 0; i < kHalfOpen; ++i) {
    half_open_.push_back(Dial(endpoint));
    send(half_open_.back().get(), "\xff", 1, MSG_NOSIGNAL);
  }
  junk_ = std::thread([this] { ThrowJunk(); });
}

WireFlood::~WireFlood() {
  over_ = true;
  junk_.join();
}

void WireFlood::ThrowJunk() {
  std::mt19937 random(1);
  while (!over_) {
    const UniqueFd fd = Dial(endpoint_);
    char junk[500];
    for (char& c : junk) c = static_cast<char>(random());
    send(fd.get(), junk, sizeof(junk), MSG_NOSIGNAL);
    poll(nullptr, 0, kJunkEveryMs);
  }
}

}  // namespace downpour
