#include "runtime/http/stream.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace downpour {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr int64_t kMostReadAtTheEnd = 8 << 20;

void NameOf(decltype(getpeername)* which, int fd, std::string& ip, int& port) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  char text[INET6_ADDRSTRLEN] = "";
  if (which(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    port = ntohs(v4.sin_port);
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    port = ntohs(v6.sin6_port);
  }
  ip = text;
}

}  // namespace

HttpStream::HttpStream(int fd, SSL_CTX* tls, const HttpBounds& bounds) : fd_(fd), bounds_(bounds) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  // An answer's head and body are two writes: the second would wait 40 ms for a client that acknowledges late.
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (tls == nullptr) return;
  tls_.reset(SSL_new(tls));
  SSL_set_fd(tls_.get(), fd);
  SSL_set_mode(tls_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

bool HttpStream::Wait(Direction direction) const {
  const auto moving = std::chrono::seconds(moved_ / bounds_.least_bytes_per_second);
  const auto left = std::min<nanoseconds>(bounds_.silence, bounds_.patience + moving - waited_);
  if (left <= nanoseconds::zero()) return false;
  pollfd wait{fd_, static_cast<short>(direction == kReads ? POLLIN : POLLOUT), 0};
  const auto begun = steady_clock::now();
  const int ready = poll(&wait, 1, static_cast<int>(duration_cast<milliseconds>(left).count()) + 1);
  waited_ += steady_clock::now() - begun;
  return ready > 0;
}

template <typename Call>
int HttpStream::ByTls(Call call) {
  while (true) {
    ERR_clear_error();
    const int result = call();
    if (result > 0) return result;
    const int why = SSL_get_error(tls_.get(), result);
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) return result;
    if (!Wait(why == SSL_ERROR_WANT_READ ? kReads : kWrites)) return -1;
  }
}

bool HttpStream::ShakeHands() {
  return tls_ == nullptr || ByTls([&] { return SSL_accept(tls_.get()); }) > 0;
}

void HttpStream::HeadIsRead(int64_t body) {
  head_left_.reset();
  body_ = body;
  given_ = 0;
  const auto here = static_cast<int64_t>(filled_ - read_);
  body_left_ = body < 0 ? -1 : std::max<int64_t>(0, body - here);
}

bool HttpStream::BeginNext(milliseconds idle, const std::function<bool()>& goes_on) {
  constexpr milliseconds kMoment(50);
  const auto until = steady_clock::now() + idle;
  const auto is_there = [&] { return read_ < filled_ || (tls_ && SSL_pending(tls_.get()) > 0); };
  pollfd wait{fd_, POLLIN, 0};
  // What comes at once is taken also where others wait: the caller bounds how often.
  while (!is_there() && poll(&wait, 1, static_cast<int>(kMoment.count())) == 0) {
    if (!goes_on() || steady_clock::now() >= until) return false;
  }
  waited_ = nanoseconds::zero();
  moved_ = 0;
  body_ = -1;
  body_left_ = 0;
  head_left_ = bounds_.most_head_bytes - static_cast<int64_t>(filled_ - read_);
  return true;
}

bool HttpStream::HasPeerGone() const {
  pollfd at{fd_, POLLRDHUP, 0};
  return poll(&at, 1, 0) > 0;
}

ssize_t HttpStream::Receive(char* data, size_t size) {
  if (tls_) return ByTls([&] { return SSL_read(tls_.get(), data, static_cast<int>(size)); });
  while (true) {
    const ssize_t got = recv(fd_, data, size, 0);
    if (got >= 0 || (errno != EAGAIN && errno != EINTR)) return got;
    if (errno == EAGAIN && !Wait(kReads)) return -1;
  }
}

ssize_t HttpStream::read(char* data, size_t size) {
  if (read_ == filled_) {
    const size_t room = std::min<size_t>(sizeof(buffer_), head_left_ ? static_cast<size_t>(*head_left_) : SIZE_MAX);
    const ssize_t got = room == 0 ? -1 : Receive(buffer_, room);
    if (got <= 0) return got;
    moved_ += got;
    if (head_left_) *head_left_ -= got;
    if (body_left_ > 0) body_left_ = std::max<int64_t>(0, body_left_ - got);
    read_ = 0;
    filled_ = static_cast<size_t>(got);
  }
  const size_t given = std::min(size, filled_ - read_);
  std::memcpy(data, buffer_ + read_, given);
  read_ += given;
  given_ += static_cast<int64_t>(given);
  return static_cast<ssize_t>(given);
}

ssize_t HttpStream::write(const char* data, size_t size) {
  constexpr size_t kAtOnce = 1 << 20;
  const size_t asked = std::min(size, kAtOnce);
  ssize_t sent = -1;
  if (tls_) {
    sent = ByTls([&] { return SSL_write(tls_.get(), data, static_cast<int>(asked)); });
  } else {
    while ((sent = send(fd_, data, asked, MSG_NOSIGNAL)) < 0) {
      if (errno != EINTR && (errno != EAGAIN || !Wait(kWrites))) break;
    }
  }
  if (sent > 0) moved_ += sent;
  return sent > 0 || asked == 0 ? sent : -1;
}

// A socket that is closed with bytes unread resets the connection, and the answer may be lost on its way.
void HttpStream::Finish() {
  if (tls_) SSL_shutdown(tls_.get());
  shutdown(fd_, SHUT_WR);
  if (body_left_ == 0 && !head_left_) return;
  char sink[65536];
  int64_t budget = kMostReadAtTheEnd;
  while (budget > 0) {
    const ssize_t got = recv(fd_, sink, sizeof(sink), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
    if (got < 0 && !Wait(kReads)) return;
    budget -= std::max<ssize_t>(got, 0);
  }
}

void HttpStream::get_remote_ip_and_port(std::string& ip, int& port) const { NameOf(getpeername, fd_, ip, port); }
void HttpStream::get_local_ip_and_port(std::string& ip, int& port) const { NameOf(getsockname, fd_, ip, port); }

}  // namespace downpour
