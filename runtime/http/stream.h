// HttpStream: one connection of an HTTP server, in the clear or by TLS, whose other end may be slow or hostile.
//
//   HttpStream stream(fd, ssl_context);
//   if (stream.ShakeHands()) ...httplib reads and writes...; stream.Finish();
//
// Bounds: the head's bytes until HeadIsRead. The time without a byte. All waiting together may last as long as patience
//   does, and a second more for each `least_bytes_per_second` that have moved. So a connection that drips is cut off
//   after some seconds, and one that carries much may last. What the server computes meanwhile does not count.
// Errors: a read or write that breaks a bound fails as if the connection had ended.
// Threads: one.
// Tests: tests/unit/runtime/http/stream_test.cc, tests/process/test_service_door.py.
#pragma once

#include <httplib.h>
#include <openssl/ssl.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace downpour {

struct HttpBounds {
  int64_t most_head_bytes = 64 << 10;
  std::chrono::milliseconds silence = std::chrono::seconds(5);
  std::chrono::milliseconds patience = std::chrono::seconds(10);
  int64_t least_bytes_per_second = 4096;
};

class HttpStream final : public httplib::Stream {
 public:
  // `fd` outlives this. Null: in the clear.
  HttpStream(int fd, SSL_CTX* tls, const HttpBounds& bounds = {});

  bool ShakeHands();
  // `body`: the bytes that the head announces; negative: it does not say how many.
  void HeadIsRead(int64_t body);
  // All of the body that the head announced, and nothing behind it, was given out.
  bool IsBodyRead() const { return body_ >= 0 && given_ == body_; }
  // Waits for another request on the same connection, whose bounds begin anew. Not longer than `idle`, nor once
  // `goes_on` is false, which is asked before each wait of a moment. Returns whether one comes.
  bool BeginNext(std::chrono::milliseconds idle, const std::function<bool()>& goes_on);
  // The other end has closed the connection, or its half of it: nobody may hear an answer.
  bool HasPeerGone() const;
  SSL* tls() const { return tls_.get(); }
  // All is said. What is left of the body is read for a while, since the answer may be lost otherwise.
  void Finish();

  bool is_readable() const override { return read_ < filled_ || Wait(kReads); }
  bool is_writable() const override { return Wait(kWrites); }
  ssize_t read(char* data, size_t size) override;
  ssize_t write(const char* data, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return fd_; }

 private:
  struct Free {
    void operator()(SSL* it) const { SSL_free(it); }
  };
  enum Direction { kReads, kWrites };

  bool Wait(Direction direction) const;
  ssize_t Receive(char* data, size_t size);
  // What the call of OpenSSL gives once it need not wait; 0 or less where it fails.
  template <typename Call>
  int ByTls(Call call);

  const int fd_;
  const HttpBounds bounds_;
  std::unique_ptr<SSL, Free> tls_;
  std::optional<int64_t> head_left_ = bounds_.most_head_bytes;
  int64_t body_ = -1, given_ = 0;  // as the head announced it, and what was given out of it
  int64_t body_left_ = 0;          // to come from the socket; negative: nobody knows
  mutable std::chrono::nanoseconds waited_{0};
  int64_t moved_ = 0;
  char buffer_[16384];  // httplib reads heads byte by byte
  size_t read_ = 0, filled_ = 0;
};

}  // namespace downpour
