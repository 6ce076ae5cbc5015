#include "runtime/zmq_sockets.h"

#include <arpa/inet.h>
#include <glog/logging.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/posix_fd.h"
#include "schema/codec.h"

namespace downpour {
namespace {

struct Option {
  int name;
  int value;
  const char* spelled;
};
#define DOWNPOUR_OPTION(name, value) \
  Option { name, value, #name }

constexpr Option kBothSides[] = {
    // The largest frame of the protocol. Without it a stranger's 8 GiB length is believed; it is off by default.
    DOWNPOUR_OPTION(ZMQ_MAXMSGSIZE, static_cast<int>(std::max(kMaxHeaderBytes, kMaxFrameBytes))),
    // Messages, not bytes: how many ZeroMQ reads ahead of us from one peer. The windows of the protocol are what keeps
    // honest peers short. It does not bound the others: a message counts once whole, and may have any number of frames
    // before kMaxFrames is looked at, so that one connection of a stranger can fill memory. Hence nothing listens where
    // strangers are (CheckListenable).
    DOWNPOUR_OPTION(ZMQ_RCVHWM, 32),
    // Messages queued to one peer before sends fail: more than any window holds (8 MiB of messages that are bundled to
    // nearly 1 MiB), so that a reply is only lost to a peer that has stopped reading. They hold references, not copies.
    DOWNPOUR_OPTION(ZMQ_SNDHWM, 256),
    // A greeting that does not come frees its descriptor after 3 s, not 30.
    DOWNPOUR_OPTION(ZMQ_HANDSHAKE_IVL, 3000),
    // The default, for ever, hangs the exit on one unsent message. Close() sets what an orderly exit needs.
    DOWNPOUR_OPTION(ZMQ_LINGER, 0),
    // Bytes unacknowledged for 5 s end the connection: a cut that heals later is redialled in RECONNECT_IVL_MAX, where
    // TCP's own back-off would sleep on.
    DOWNPOUR_OPTION(ZMQ_TCP_MAXRT, 5000),
    // A peer whose host vanished while idle frees its descriptor within half a minute.
    DOWNPOUR_OPTION(ZMQ_TCP_KEEPALIVE, 1),
    DOWNPOUR_OPTION(ZMQ_TCP_KEEPALIVE_IDLE, 15),
    DOWNPOUR_OPTION(ZMQ_TCP_KEEPALIVE_INTVL, 5),
    DOWNPOUR_OPTION(ZMQ_TCP_KEEPALIVE_CNT, 3),
    // No ZMTP heartbeat: behind a large frame on a slow link it declares the living dead. The protocol has its own, on
    // the control connection.
    DOWNPOUR_OPTION(ZMQ_HEARTBEAT_IVL, 0),
};

constexpr Option kListenerOnly[] = {
    // A send to a peer that is gone or full says so; the default drops in silence.
    DOWNPOUR_OPTION(ZMQ_ROUTER_MANDATORY, 1),
    // Whoever claims another's routing id is refused, and gets none of its replies. We set no ids: ours are random.
    DOWNPOUR_OPTION(ZMQ_ROUTER_HANDOVER, 0),
    // A burst of workers starting at once.
    DOWNPOUR_OPTION(ZMQ_BACKLOG, 1024),
};

constexpr Option kDiallerOnly[] = {
    // Queue for nobody: without it a thousand sends succeed with no server, and a restarted one gets them all.
    DOWNPOUR_OPTION(ZMQ_IMMEDIATE, 1),
    // Roles start in any order and come back: look again at once, then twice a second.
    DOWNPOUR_OPTION(ZMQ_RECONNECT_IVL, 10),
    DOWNPOUR_OPTION(ZMQ_RECONNECT_IVL_MAX, 500),
    // A silent address does not hold up the next attempt for minutes.
    DOWNPOUR_OPTION(ZMQ_CONNECT_TIMEOUT, 500),
};

template <size_t count>
absl::Status SetOptions(void* socket, const Option (&options)[count]) {
  for (const Option& option : options) {
    // MAXMSGSIZE alone is 64 bits wide.
    const int64_t wide = option.value;
    const bool is_wide = option.name == ZMQ_MAXMSGSIZE;
    const void* value = is_wide ? static_cast<const void*>(&wide) : &option.value;
    if (zmq_setsockopt(socket, option.name, value, is_wide ? sizeof(wide) : sizeof(option.value)) != 0) {
      return absl::InternalError(absl::StrCat("libzmq refuses ", option.spelled, ": ", zmq_strerror(errno)));
    }
  }
  return absl::OkStatus();
}

constexpr int kZeroCopyRecv = 10;  // ZMQ_ZERO_COPY_RECV, which zmq.h shows to draft builds only

bool IsIpc(const std::string& endpoint) { return endpoint.rfind("ipc:///", 0) == 0; }

// Only what host names and addresses are made of: ZeroMQ gives a meaning to more (a source address before a ';').
bool IsHost(const std::string& host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_' || c == ':' || c == '%';
  });
}

// "host:port" cut at its last colon, brackets taken off the host.
struct HostPort {
  std::string host;
  int port = 0;
};
absl::StatusOr<HostPort> ParseHostPort(const std::string& endpoint) {
  const auto error = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", endpoint, "\" is no endpoint: write HOST:PORT, [IPV6]:PORT or ipc:///PATH"));
  };
  const size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos || colon == 0) return error();
  HostPort parsed{endpoint.substr(0, colon)};
  if (!absl::SimpleAtoi(endpoint.substr(colon + 1), &parsed.port) || parsed.port < 0 || parsed.port > 65535)
    return error();
  const bool bracketed = parsed.host.front() == '[' && parsed.host.back() == ']';
  if (bracketed) parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  if (!IsHost(parsed.host) || (parsed.host.find(':') != std::string::npos) != bracketed) return error();
  return parsed;
}

// Whether a process listens at this path. ZeroMQ would take the path from it without a word.
bool SomebodyListens(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;  // ZeroMQ refuses it
  path.copy(address.sun_path, path.size());
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

bool IsLoopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

// An endpoint as ZeroMQ takes it.
struct ZmqAddress {
  std::string spelled;
  // Not for IPv4 addresses, which ZeroMQ would report as [::ffff:127.0.0.1]; for names, which may resolve to either.
  int ipv6 = 0;
};
absl::StatusOr<ZmqAddress> ParseAddress(const std::string& endpoint) {
  if (IsIpc(endpoint)) return ZmqAddress{endpoint};
  absl::StatusOr<HostPort> parsed = ParseHostPort(endpoint);
  if (!parsed.ok()) return parsed.status();
  if (parsed->host == "localhost") parsed->host = "127.0.0.1";  // which ZeroMQ does not resolve where it listens
  const bool v6 = parsed->host.find(':') != std::string::npos;
  in_addr v4{};
  return ZmqAddress{absl::StrCat("tcp://", v6 ? "[" : "", parsed->host, v6 ? "]:" : ":", parsed->port),
                    inet_pton(AF_INET, parsed->host.c_str(), &v4) != 1};
}

absl::StatusOr<ZmqSocket> Open(const ZmqContext& context, int type, const std::string& endpoint, int ipv6) {
  void* socket = zmq_socket(context.get(), type);
  if (socket == nullptr) return absl::InternalError(absl::StrCat("no more sockets: ", zmq_strerror(errno)));
  ZmqSocket owned(socket, endpoint);
  if (absl::Status status = SetOptions(socket, kBothSides); !status.ok()) return status;
  absl::Status status = type == ZMQ_ROUTER ? SetOptions(socket, kListenerOnly) : SetOptions(socket, kDiallerOnly);
  if (!status.ok()) return status;
  if (absl::Status set = SetOptions(socket, {DOWNPOUR_OPTION(ZMQ_IPV6, ipv6)}); !set.ok()) return set;
  return owned;
}

#undef DOWNPOUR_OPTION
}  // namespace

absl::StatusOr<ZmqContext> ZmqContext::Create(int io_threads) {
  int major = 0, minor = 0, patch = 0;
  zmq_version(&major, &minor, &patch);
  if (major * 10000 + minor * 100 + patch < 40303) {
    return absl::FailedPreconditionError(
        absl::StrCat("libzmq ", major, ".", minor, ".", patch, " has known holes: install 4.3.3 or newer"));
  }
  void* raw = zmq_ctx_new();
  if (raw == nullptr) return absl::InternalError(absl::StrCat("no ZeroMQ context: ", zmq_strerror(errno)));
  ZmqContext context(raw);
  // Without ZERO_COPY_RECV every small frame is a block of its own, 8-aligned, so that floats in it may be read in
  // place; with it they lie anywhere in a shared buffer. Large frames are received in place either way.
  for (auto [option, value] : {std::pair(ZMQ_IO_THREADS, io_threads), std::pair(kZeroCopyRecv, 0)}) {
    if (zmq_ctx_set(raw, option, value) != 0) {
      return absl::InternalError(absl::StrCat("libzmq refuses context option ", option, ": ", zmq_strerror(errno)));
    }
  }
  return context;
}

ZmqContext::ZmqContext(ZmqContext&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}
ZmqContext& ZmqContext::operator=(ZmqContext&& other) noexcept {
  std::swap(context_, other.context_);
  return *this;
}
ZmqContext::~ZmqContext() {
  if (context_ == nullptr) return;
  while (zmq_ctx_term(context_) != 0 && errno == EINTR) {
  }
}

ZmqSocket::ZmqSocket(ZmqSocket&& other) noexcept
    : socket_(std::exchange(other.socket_, nullptr)), endpoint_(std::move(other.endpoint_)) {}
ZmqSocket& ZmqSocket::operator=(ZmqSocket&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(endpoint_, other.endpoint_);
  return *this;
}
void ZmqSocket::Close(Duration linger) {
  if (socket_ == nullptr) return;
  const int ms = static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(linger).count());
  CHECK_EQ(zmq_setsockopt(socket_, ZMQ_LINGER, &ms, sizeof(ms)), 0) << zmq_strerror(errno);
  CHECK_EQ(zmq_close(std::exchange(socket_, nullptr)), 0) << zmq_strerror(errno);
}

absl::Status CheckListenable(const std::string& endpoint) {
  if (IsIpc(endpoint)) return absl::OkStatus();
  absl::StatusOr<HostPort> parsed = ParseHostPort(endpoint);
  if (!parsed.ok()) return parsed.status();
  if (parsed->host == "localhost" || IsLoopback(parsed->host)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("will not listen on ", endpoint,
                                                    " without keys, where anyone could reach it: use 127.0.0.1:PORT, "
                                                    "[::1]:PORT or ipc:///PATH"));
}

absl::Status CheckDialable(const std::string& endpoint) {
  if (IsIpc(endpoint)) return absl::OkStatus();
  absl::StatusOr<HostPort> parsed = ParseHostPort(endpoint);
  if (!parsed.ok()) return parsed.status();
  if (parsed->port > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot dial ", endpoint, ": port 0 is only for listening"));
}

absl::StatusOr<ZmqSocket> Listen(const ZmqContext& context, const std::string& endpoint) {
  if (absl::Status status = CheckListenable(endpoint); !status.ok()) return status;
  absl::StatusOr<ZmqAddress> address = ParseAddress(endpoint);
  if (!address.ok()) return address.status();
  if (IsIpc(endpoint) && SomebodyListens(endpoint.substr(std::string("ipc://").size()))) {
    return absl::AlreadyExistsError(
        absl::StrCat("cannot listen on ", endpoint, ": another process does; choose another path"));
  }
  absl::StatusOr<ZmqSocket> socket = Open(context, ZMQ_ROUTER, endpoint, address->ipv6);
  if (!socket.ok()) return socket;
  if (zmq_bind(socket->get(), address->spelled.c_str()) != 0) {
    if (errno == EADDRINUSE) {
      return absl::AlreadyExistsError(absl::StrCat("cannot listen on ", endpoint,
                                                   ": the port is in use; choose another one, or 0 for any free one"));
    }
    return absl::UnavailableError(absl::StrCat("cannot listen on ", endpoint, ": ", zmq_strerror(errno)));
  }
  char bound[512];
  size_t bytes = sizeof(bound);
  if (zmq_getsockopt(socket->get(), ZMQ_LAST_ENDPOINT, bound, &bytes) != 0) {
    return absl::InternalError(absl::StrCat("libzmq does not say where it listens: ", zmq_strerror(errno)));
  }
  if (!IsIpc(endpoint)) socket->endpoint_ = std::string(bound).substr(std::string("tcp://").size());
  return socket;
}

absl::StatusOr<ZmqSocket> Connect(const ZmqContext& context, const std::string& endpoint) {
  if (absl::Status status = CheckDialable(endpoint); !status.ok()) return status;
  absl::StatusOr<ZmqAddress> address = ParseAddress(endpoint);
  if (!address.ok()) return address.status();
  absl::StatusOr<ZmqSocket> socket = Open(context, ZMQ_DEALER, endpoint, address->ipv6);
  if (!socket.ok()) return socket;
  if (zmq_connect(socket->get(), address->spelled.c_str()) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot dial ", endpoint, ": ", zmq_strerror(errno)));
  }
  return socket;
}

}  // namespace downpour
