// bench_wire's measure of the kernel: one stream socket, a header of 16 bytes before each slice.
#include <arpa/inet.h>
#include <fcntl.h>
#include <glog/logging.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <vector>

#include "bench/wire_sides.h"
#include "runtime/posix/fd.h"
#include "schema/payload.h"

namespace downpour {
namespace {

struct Header {
  uint64_t bytes = 0;  // that follow; 0: a pull of `slice`, or an acknowledgement
  uint64_t slice = 0;
};

bool IsIpc(const std::string& endpoint) { return endpoint.rfind("ipc://", 0) == 0; }

struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
Address MakeAddress(const std::string& endpoint) {
  Address address;
  if (IsIpc(endpoint)) {
    auto* to = reinterpret_cast<sockaddr_un*>(&address.storage);
    const std::string path = endpoint.substr(6);
    CHECK_LT(path.size(), sizeof(to->sun_path));
    to->sun_family = AF_UNIX;
    std::memcpy(to->sun_path, path.data(), path.size());
    address.bytes = sizeof(*to);
  } else {
    auto* to = reinterpret_cast<sockaddr_in*>(&address.storage);
    to->sin_family = AF_INET;
    to->sin_port = htons(static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    to->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.bytes = sizeof(*to);
  }
  return address;
}

UniqueFd OpenSocket(const std::string& endpoint) {
  UniqueFd fd(socket(IsIpc(endpoint) ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  PCHECK(fd.ok());
  return fd;
}
void SendAtOnce(const UniqueFd& fd) {  // fails on what is not TCP, where it need not be said
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void WriteAll(int fd, const void* data, size_t bytes) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t wrote = send(fd, at, bytes, MSG_NOSIGNAL);
    PCHECK(wrote > 0);
    at += wrote;
    bytes -= static_cast<size_t>(wrote);
  }
}
// False where the stream ends.
bool ReadAll(int fd, void* data, size_t bytes) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t got = recv(fd, at, bytes, 0);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

void Serve(const WireLoad& load, const std::string& listen_at,
           const std::function<void(const std::string&)>& listening) {
  const UniqueFd listener = OpenSocket(listen_at);
  const Address address = MakeAddress(listen_at);
  PCHECK(bind(listener.get(), address.get(), address.bytes) == 0 && listen(listener.get(), 8) == 0);
  std::string endpoint = listen_at;
  if (!IsIpc(listen_at)) {
    sockaddr_in bound{};
    socklen_t bytes = sizeof(bound);
    PCHECK(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &bytes) == 0);
    endpoint = "127.0.0.1:" + std::to_string(ntohs(bound.sin_port));
  }
  Payload pushed = Payload::Zeros(load.slice_bytes);
  std::vector<Payload> slices;
  for (size_t i = 0; i < load.slices; ++i) slices.push_back(Payload::Zeros(load.slice_bytes));
  listening(endpoint);
  for (;;) {
    const UniqueFd peer(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    PCHECK(peer.ok());
    SendAtOnce(peer);
    for (Header header; ReadAll(peer.get(), &header, sizeof(header));) {
      const bool push = header.bytes > 0;
      if (push && !ReadAll(peer.get(), pushed.mutable_data(), header.bytes)) break;
      const Header answer{push ? 0 : load.slice_bytes, header.slice};
      WriteAll(peer.get(), &answer, sizeof(answer));
      if (!push) WriteAll(peer.get(), slices.at(header.slice).data(), load.slice_bytes);
    }
  }
}

// Sends and receives as the kernel lets it, on one thread: while it waits it always reads, so that neither side blocks
// the other for good.
class RawClient final : public WireClient {
 public:
  RawClient(const WireLoad& load, const std::string& endpoint) : load_(load), fd_(OpenSocket(endpoint)) {
    const Address address = MakeAddress(endpoint);
    PCHECK(connect(fd_.get(), address.get(), address.bytes) == 0);
    PCHECK(fcntl(fd_.get(), F_SETFL, O_NONBLOCK) == 0);
    SendAtOnce(fd_);
    for (size_t i = 0; i < load.slices; ++i) slices_.push_back(Payload::Zeros(load.slice_bytes));
    unit_ = Payload::Zeros(2 * sizeof(Header) + load.slice_bytes);
  }

  void Begin(size_t slice) override {
    const Header push{load_.slice_bytes, slice}, pull{0, slice};
    queue_.push_back(Payload::CopyOf(&push, sizeof(push)));
    queue_.push_back(slices_[slice]);
    queue_.push_back(Payload::CopyOf(&pull, sizeof(pull)));
    Write();
  }

  // The acknowledgement, a header and the slice: as many bytes every time.
  void End() override {
    for (size_t got = 0; got < unit_.size();) {
      const ssize_t more = recv(fd_.get(), unit_.mutable_data() + got, unit_.size() - got, 0);
      if (more > 0) {
        got += static_cast<size_t>(more);
        continue;
      }
      PCHECK(more < 0 && errno == EAGAIN);
      pollfd item{fd_.get(), static_cast<short>(queue_.empty() ? POLLIN : POLLIN | POLLOUT), 0};
      PCHECK(poll(&item, 1, -1) > 0);
      Write();
    }
  }

 private:
  void Write() {
    while (!queue_.empty()) {
      const Payload& front = queue_.front();
      const ssize_t wrote = send(fd_.get(), front.data() + written_, front.size() - written_, MSG_NOSIGNAL);
      if (wrote < 0 && errno == EAGAIN) return;
      PCHECK(wrote > 0);
      written_ += static_cast<size_t>(wrote);
      if (written_ < front.size()) continue;
      queue_.pop_front();
      written_ = 0;
    }
  }

  const WireLoad load_;
  UniqueFd fd_;
  std::vector<Payload> slices_;
  Payload unit_;
  std::deque<Payload> queue_;
  size_t written_ = 0;  // of the first in the queue
};

}  // namespace

WireSides RawSides() {
  return {"raw sockets", Serve, [](const WireLoad& load, const std::string& endpoint) -> std::unique_ptr<WireClient> {
            return std::make_unique<RawClient>(load, endpoint);
          }};
}

}  // namespace downpour
