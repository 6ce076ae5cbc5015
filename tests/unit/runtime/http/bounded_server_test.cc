#include "runtime/http/bounded_server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "tests/unit/patient_client.h"

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
    const httplib::Result answer = PatientClient("127.0.0.1", port).Get("/x");
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

// A server that keeps connections for /kept, and a client of one connection.
class KeptConnectionTest : public testing::Test {
 protected:
  KeptConnectionTest() {
    server_.KeepWhere([](const httplib::Request& request) { return request.path.starts_with("/kept"); });
    const auto read_all = [](const httplib::Request&, httplib::Response& answer, const httplib::ContentReader& reader) {
      std::string body;
      reader([&](const char* data, size_t size) {
        body.append(data, size);
        return true;
      });
      answer.set_content("<" + body + ">", "text/plain");
    };
    server_.Post("/kept", read_all);
    server_.Post("/once", read_all);
    server_.Post("/kept/unread", [](const httplib::Request&, httplib::Response& answer, const httplib::ContentReader&) {
      answer.status = 403;
      answer.set_content("no", "text/plain");
    });
    server_.Post("/long", [this](const httplib::Request& request, httplib::Response&, const httplib::ContentReader&) {
      had_gone_at_first_.set_value(HasPeerGone(request));
      const auto hang_ends = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (!HasPeerGone(request) && std::chrono::steady_clock::now() < hang_ends) std::this_thread::yield();
      had_gone_.set_value(HasPeerGone(request));
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    listens_ = std::thread([this] { server_.Listen(); });
  }
  ~KeptConnectionTest() override {
    server_.Stop();
    listens_.join();
  }
  int Dial() const {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  static void Say(int fd, const std::string& text) {
    EXPECT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // To the connection's end.
  static std::string HearAll(int fd) {
    std::string heard;
    char block[4096];
    for (ssize_t got = 0; (got = recv(fd, block, sizeof(block), 0)) > 0;) heard.append(block, static_cast<size_t>(got));
    close(fd);
    return heard;
  }
  static std::string Post(const std::string& path, const std::string& body, const std::string& more = "") {
    return "POST " + path + " HTTP/1.1\r\nHost: x\r\n" + more + "Content-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  static int AnswersIn(const std::string& heard) {
    int count = 0;
    for (size_t at = 0; (at = heard.find("HTTP/1.1 ", at)) != std::string::npos; ++at) ++count;
    return count;
  }

  BoundedHttpServer server_{/*most=*/2, TlsContext(), [](int fd) { return std::to_string(fd); }};
  std::promise<bool> had_gone_at_first_, had_gone_;
  int port_ = 0;
  std::thread listens_;
};

TEST_F(KeptConnectionTest, AHandlerLearnsThatWhoeverAskedHasHungUp) {
  const int fd = Dial();
  Say(fd, Post("/long", ""));
  EXPECT_FALSE(had_gone_at_first_.get_future().get());
  close(fd);
  EXPECT_TRUE(had_gone_.get_future().get());
}

TEST_F(KeptConnectionTest, TakesOneRequestBehindTheOtherWhereTheyAreKept) {
  const int fd = Dial();
  Say(fd, Post("/kept", "one") + Post("/kept", "") + Post("/kept", "three") + Post("/once", "last"));
  const std::string heard = HearAll(fd);
  EXPECT_EQ(AnswersIn(heard), 4) << heard;
  for (const char* part : {"<one>", "<>", "<three>", "<last>"}) EXPECT_NE(heard.find(part), std::string::npos) << part;
}

TEST_F(KeptConnectionTest, EndsBehindARequestThatIsNotKept) {
  const int fd = Dial();
  Say(fd, Post("/once", "one") + Post("/kept", "two"));
  const std::string heard = HearAll(fd);
  EXPECT_EQ(AnswersIn(heard), 1) << heard;
  EXPECT_NE(heard.find("Connection: close"), std::string::npos) << heard;
}

TEST_F(KeptConnectionTest, WhatABodySaysIsNoRequest) {
  const std::string hidden = Post("/kept", "hidden");
  for (const std::string& text :
       {Post("/kept/unread", hidden),                              // refused before it was read
        Post("/kept", "two", "Content-Length: 1\r\n") + hidden,    // two lengths
        Post("/kept", "close", "Connection: close\r\n") + hidden,  // its client wants no more
        "POST /kept HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
        "GET /kept HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(hidden.size()) + "\r\n\r\n" + hidden}) {
    const int fd = Dial();
    Say(fd, text);
    const std::string heard = HearAll(fd);
    EXPECT_EQ(AnswersIn(heard), 1) << text << heard;
    EXPECT_EQ(heard.find("<hidden>"), std::string::npos) << text << heard;
  }
}

TEST_F(KeptConnectionTest, IdleOnesMakeRoomForThoseWhoWait) {
  const int first = Dial(), second = Dial();
  Say(first, Post("/kept", "one"));
  Say(second, Post("/kept", "two"));
  const int third = Dial();  // both threads are held by connections that may say more
  Say(third, Post("/once", "three"));
  EXPECT_NE(HearAll(third).find("<three>"), std::string::npos);
  close(first);
  close(second);
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
