#include "runtime/zmq/sockets.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <zmq.hpp>

#include "absl/strings/str_cat.h"
#include "runtime/posix/fd.h"
#include "schema/codec.h"
#include "schema/host_port.h"

namespace downpour {
namespace {

void SetLimits(zmq::socket_t& socket) {
  using namespace zmq::sockopt;
  // The largest frame of the protocol. Without it a stranger's 8 GiB length is believed; it is off by default.
  socket.set(maxmsgsize, static_cast<int64_t>(std::max(kMaxHeaderBytes, kMaxFrameBytes)));
  // Messages, not bytes: how many ZeroMQ reads ahead of us from one peer. The windows of the protocol are what keeps
  // honest peers short. It does not bound the others: a message counts once whole, and may have any number of frames
  // before kMaxFrames is looked at. Hence no stranger gets as far (CheckListenable), and backlog_limit.h bounds the
  // others.
  socket.set(rcvhwm, 32);
  // Messages queued to one peer before sends fail: more than any window holds (8 MiB of messages that are bundled to
  // nearly 1 MiB), so that a reply is only lost to a peer that has stopped reading. They hold references, not copies.
  socket.set(sndhwm, 256);
  // A greeting that does not come frees its descriptor after 3 s, not 30.
  socket.set(handshake_ivl, 3000);
  // The default, for ever, hangs the exit on one unsent message. Close() sets what an orderly exit needs.
  socket.set(zmq::sockopt::linger, 0);
  // Bytes unacknowledged for 5 s end the connection: a cut that heals later is redialled in reconnect_ivl_max, where
  // TCP's own back-off would sleep on.
  socket.set(tcp_maxrt, 5000);
  // A peer whose host vanished while idle frees its descriptor within half a minute.
  socket.set(tcp_keepalive, 1);
  socket.set(tcp_keepalive_idle, 15);
  socket.set(tcp_keepalive_intvl, 5);
  socket.set(tcp_keepalive_cnt, 3);
  // No ZMTP heartbeat: behind a large frame on a slow link it declares the living dead. The
  // protocol has its own, on the control connection.
  socket.set(heartbeat_ivl, 0);
}

void SetListening(zmq::socket_t& socket) {
  using namespace zmq::sockopt;
  // A send to a peer that is gone or full says so; the default drops in silence.
  socket.set(router_mandatory, true);
  // Whoever claims another's routing id is refused, and gets none of its replies. We set no ids: ours are random.
  socket.set(router_handover, false);
  // A burst of workers starting at once.
  socket.set(backlog, 1024);
}

void SetDialling(zmq::socket_t& socket) {
  using namespace zmq::sockopt;
  // Queue for nobody: without it a thousand sends succeed with no server, and a restarted one gets them all.
  socket.set(immediate, true);
  // Roles start in any order and come back: look again at once, then twice a second.
  socket.set(reconnect_ivl, 10);
  socket.set(reconnect_ivl_max, 500);
  // A silent address does not hold up the next attempt for minutes.
  socket.set(connect_timeout, 500);
}

constexpr int kZeroCopyRecv = 10;  // ZMQ_ZERO_COPY_RECV, which zmq.h shows to draft builds only

absl::StatusOr<HostPort> ParseTcp(const std::string& endpoint) {
  if (std::optional<HostPort> parsed = ParseHostPort(endpoint)) return *std::move(parsed);
  return absl::InvalidArgumentError(
      absl::StrCat("\"", endpoint, "\" is no endpoint: write HOST:PORT, [IPV6]:PORT or ipc:///PATH"));
}

std::string PathOf(const std::string& ipc) { return ipc.substr(std::string("ipc://").size()); }

absl::Status CheckPath(const std::string& ipc) {
  const size_t bytes = PathOf(ipc).size();
  if (bytes <= kMostSocketPath) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the path of ", ipc, " has ", bytes,
                                                 " bytes, and a socket's has at most ", kMostSocketPath,
                                                 ": name a shorter one"));
}

// Whether a process listens at this path, which CheckPath lets pass. ZeroMQ would take the path from it without a word.
bool SomebodyListens(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// An endpoint as ZeroMQ takes it.
struct ZmqAddress {
  std::string spelled;
  // Not for IPv4 addresses, which ZeroMQ would report as [::ffff:127.0.0.1]; for names, which may resolve to either.
  int ipv6 = 0;
};
absl::StatusOr<ZmqAddress> ParseAddress(const std::string& endpoint) {
  if (IsIpc(endpoint)) return ZmqAddress{endpoint};
  absl::StatusOr<HostPort> parsed = ParseTcp(endpoint);
  if (!parsed.ok()) return parsed.status();
  if (parsed->host == "localhost") parsed->host = "127.0.0.1";  // which ZeroMQ does not resolve where it listens
  in_addr v4{};
  return ZmqAddress{absl::StrCat("tcp://", ToString(*parsed)), inet_pton(AF_INET, parsed->host.c_str(), &v4) != 1};
}

// A socket with a domain admits no peer of ZMTP 1.0 or 2.0. Without keys anybody on this host may speak, but not a web
// page: in ZMTP 1.0 the body of a POST is messages, and a browser sends one wherever any page wants it to.
void SpeakPlainlyAsListener(zmq::socket_t& socket) { socket.set(zmq::sockopt::zap_domain, "downpour"); }

void SetOwnPair(zmq::socket_t& socket, const KeyRing& keys) {
  socket.set(zmq::sockopt::curve_publickey, keys.own.public_key);
  socket.set(zmq::sockopt::curve_secretkey, keys.own.secret_key);
}

void SpeakCurveAsListener(zmq::socket_t& socket, const KeyRing& keys) {
  socket.set(zmq::sockopt::curve_server, true);
  SetOwnPair(socket, keys);
  // Two options for one thing: without a domain, or where it is not enforced, a missing handler lets everybody in.
  socket.set(zmq::sockopt::zap_domain, "downpour");
  constexpr int kZapEnforceDomain = 93;  // which zmq.h shows to draft builds only
  const int on = 1;
  if (zmq_setsockopt(socket.handle(), kZapEnforceDomain, &on, sizeof(on)) != 0) throw zmq::error_t();
}

void SpeakCurveAsDialler(zmq::socket_t& socket, const KeyRing& keys, PeerRole to) {
  SetOwnPair(socket, keys);
  socket.set(zmq::sockopt::curve_serverkey, keys.Of(to).front());
}

absl::StatusOr<ZmqSocket> Open(ZmqContext& context, zmq::socket_type type, const std::string& endpoint, int ipv6) {
  try {
    zmq::socket_t socket(context.get(), type);
    SetLimits(socket);
    type == zmq::socket_type::router ? SetListening(socket) : SetDialling(socket);
    socket.set(zmq::sockopt::ipv6, ipv6);
    return ZmqSocket(std::move(socket), endpoint);
  } catch (const zmq::error_t& error) {
    return NoSocket(error);
  }
}

}  // namespace

absl::StatusOr<ZmqContext> ZmqContext::Create(int io_threads) {
  int major = 0, minor = 0, patch = 0;
  zmq_version(&major, &minor, &patch);
  if (major * 10000 + minor * 100 + patch < 40303) {
    return absl::FailedPreconditionError(
        absl::StrCat("libzmq ", major, ".", minor, ".", patch, " has known holes: install 4.3.3 or newer"));
  }
  zmq::context_t context;
  // Without ZERO_COPY_RECV every small frame is a block of its own, 8-aligned, so that floats in it may be read in
  // place; with it they lie anywhere in a shared buffer. Large frames are received in place either way.
  for (auto [option, value] :
       {std::pair(ZMQ_IO_THREADS, io_threads), std::pair(ZMQ_MAX_SOCKETS, kMostSockets), std::pair(kZeroCopyRecv, 0)}) {
    if (zmq_ctx_set(context.handle(), option, value) != 0) {
      return absl::InternalError(absl::StrCat("libzmq refuses context option ", option, ": ", zmq_strerror(errno)));
    }
  }
  return ZmqContext(std::move(context));
}

absl::Status NoSocket(const zmq::error_t& error) {
  if (error.num() != EMFILE && error.num() != ENFILE) {
    return absl::InternalError(absl::StrCat("libzmq refuses a socket or one of its options: ", error.what()));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "too few open files for another connection: start this where `ulimit -n` allows more of them, or with "
      "LimitNOFILE= in its systemd unit (",
      error.what(), ")"));
}

void ZmqSocket::Close(Duration linger) {
  if (!socket_) return;
  socket_.set(zmq::sockopt::linger, static_cast<int>(linger / 1ms));
  socket_.close();
}

void ZmqSocket::StopDialling() {
  // By the C function: it fails where ZeroMQ has already given up, and that is as well.
  zmq_disconnect(socket_.handle(), dials_.c_str());
}

void ZmqSocket::DialAgain(const KeyRing* keys, PeerRole to) {
  if (keys != nullptr && !IsIpc(endpoint_) && !keys->Of(to).empty()) SpeakCurveAsDialler(socket_, *keys, to);
  socket_.connect(dials_);  // which it took before
}

bool AdmitsByKey(const std::string& endpoint, bool with_keys) { return with_keys && !IsIpc(endpoint); }

absl::Status CheckListenable(const std::string& endpoint, bool with_keys) {
  if (IsIpc(endpoint)) return CheckPath(endpoint);
  absl::StatusOr<HostPort> parsed = ParseTcp(endpoint);
  if (!parsed.ok()) return parsed.status();
  if (with_keys || parsed->host == "localhost" || IsLoopback(parsed->host)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("will not listen on ", endpoint,
                   " without keys, where anyone could reach it: make keys by `downpour keys new --out DIR` and give "
                   "--keys=DIR, or use 127.0.0.1:PORT, [::1]:PORT or ipc:///PATH"));
}

absl::Status CheckDialable(const std::string& endpoint) {
  if (IsIpc(endpoint)) return CheckPath(endpoint);
  if (IsDialable(endpoint)) return absl::OkStatus();
  if (const absl::Status status = ParseTcp(endpoint).status(); !status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat("cannot dial ", endpoint, ": port 0 is only for listening"));
}

absl::StatusOr<ZmqSocket> Listen(ZmqContext& context, const std::string& endpoint, const KeyRing* keys) {
  if (absl::Status status = CheckListenable(endpoint, keys != nullptr); !status.ok()) return status;
  absl::StatusOr<ZmqAddress> address = ParseAddress(endpoint);
  if (!address.ok()) return address.status();
  if (IsIpc(endpoint) && SomebodyListens(PathOf(endpoint))) {
    return absl::AlreadyExistsError(
        absl::StrCat("cannot listen on ", endpoint, ": another process does; choose another path"));
  }
  absl::StatusOr<ZmqSocket> socket = Open(context, zmq::socket_type::router, endpoint, address->ipv6);
  if (!socket.ok()) return socket;
  try {
    if (AdmitsByKey(endpoint, keys != nullptr)) {
      SpeakCurveAsListener(socket->get(), *keys);
    } else if (!IsIpc(endpoint)) {
      SpeakPlainlyAsListener(socket->get());
    }
    socket->get().bind(address->spelled);
  } catch (const zmq::error_t& error) {
    if (error.num() == EADDRINUSE) {
      return absl::AlreadyExistsError(absl::StrCat("cannot listen on ", endpoint,
                                                   ": the port is in use; choose another one, or 0 for any free one"));
    }
    return absl::UnavailableError(absl::StrCat("cannot listen on ", endpoint, ": ", error.what()));
  }
  if (IsIpc(endpoint)) return socket;
  const std::string bound = socket->get().get(zmq::sockopt::last_endpoint);
  return ZmqSocket(std::move(socket->get()), bound.substr(std::string("tcp://").size()));
}

absl::StatusOr<ZmqSocket> Connect(ZmqContext& context, const std::string& endpoint, const KeyRing* keys, PeerRole to,
                                  const Watch& watch) {
  if (absl::Status status = CheckDialable(endpoint); !status.ok()) return status;
  const bool curve = AdmitsByKey(endpoint, keys != nullptr);
  if (curve && keys->Of(to).empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("a ", NameOf(keys->self), " has no key for a ", NameOf(to), " and cannot dial ", endpoint));
  }
  absl::StatusOr<ZmqAddress> address = ParseAddress(endpoint);
  if (!address.ok()) return address.status();
  absl::StatusOr<ZmqSocket> socket = Open(context, zmq::socket_type::dealer, endpoint, address->ipv6);
  if (!socket.ok()) return socket;
  try {
    if (curve) SpeakCurveAsDialler(socket->get(), *keys, to);
    if (absl::Status status = watch ? watch(*socket) : absl::OkStatus(); !status.ok()) return status;
    socket->get().connect(address->spelled);
    return ZmqSocket(std::move(socket->get()), endpoint, address->spelled);
  } catch (const zmq::error_t& error) {
    return absl::InvalidArgumentError(absl::StrCat("cannot dial ", endpoint, ": ", error.what()));
  }
}

}  // namespace downpour
