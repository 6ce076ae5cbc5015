#include "runtime/http/bounded_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

namespace {

std::atomic<int> failing_accepts = 0, accept_error = 0;

}  // namespace

// In place of the C library's: the system has no descriptor for a while.
extern "C" int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  if (failing_accepts > 0) {
    --failing_accepts;
    errno = accept_error;
    return -1;
  }
  return static_cast<int>(syscall(SYS_accept4, fd, address, size, flags));
}

namespace downpour {
namespace {

TEST(BoundedHttpServerTest, ServesOnBehindConnectionsThatCouldNotBeTaken) {
  for (const int error : {ENFILE, EMFILE, ENOBUFS, ENOMEM, ECONNABORTED, EINTR, EPERM}) {
    BoundedHttpServer server(/*most=*/4, TlsContext(), [](int) { return "one"; });
    server.Get("/x", [](const httplib::Request&, httplib::Response& answer) { answer.set_content("y", "text/plain"); });
    const int port = server.bind_to_any_port("127.0.0.1");
    accept_error = error;
    failing_accepts = 3;
    std::thread listens([&] { server.Listen(); });
    const httplib::Result answer = httplib::Client("127.0.0.1", port).Get("/x");
    ASSERT_TRUE(answer) << error;
    EXPECT_EQ(answer->body, "y");
    server.Stop();
    listens.join();
  }
}

TEST(BoundedHttpServerTest, OneThatIsStoppedBeforeItListensNeverDoes) {
  BoundedHttpServer server(/*most=*/4, TlsContext(), [](int) { return "one"; });
  ASSERT_GT(server.bind_to_any_port("127.0.0.1"), 0);
  server.Stop();
  server.Listen();
}

TEST(TakesGzipTest, ByNameAndWithAWeightAboveZero) {
  for (const char* taken : {"gzip", "br, gzip", "gzip, deflate, br", "GZIP ;q=0.5", "deflate;q=0,gzip; Q=1.0"}) {
    EXPECT_TRUE(TakesGzip(taken)) << taken;
  }
  for (const char* refused :
       {"", "br", "identity", "gzip;q=0", "gzip ; q=0.000, br", "gzip;q=x", "gzip;q=-1", "gzip;q=nan", "not-gzip"}) {
    EXPECT_FALSE(TakesGzip(refused)) << refused;
  }
}

}  // namespace
}  // namespace downpour
