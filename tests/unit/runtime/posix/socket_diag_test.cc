#include "runtime/posix/socket_diag.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/posix/fd.h"

namespace downpour {
namespace {

sockaddr_in Loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}
int PortOf(const UniqueFd& fd) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

class PosixSocketDiagTest : public testing::Test {
 protected:
  PosixSocketDiagTest() {
    sockaddr_in address = Loopback();
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    address.sin_port = htons(static_cast<uint16_t>(PortOf(listener_)));
    EXPECT_EQ(connect(client_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    server_ = UniqueFd(accept(listener_.get(), nullptr, nullptr));
  }
  void SetUp() override {
    if (!UserBySocketDiag("127.0.0.1", PortOf(client_), PortOf(listener_))) GTEST_SKIP() << "this kernel does not tell";
  }

  UniqueFd listener_{socket(AF_INET, SOCK_STREAM, 0)}, client_{socket(AF_INET, SOCK_STREAM, 0)}, server_;
};

TEST_F(PosixSocketDiagTest, TheUserOfAStandingConnection) {
  EXPECT_EQ(UserBySocketDiag("127.0.0.1", PortOf(client_), PortOf(listener_)), getuid());
}

TEST_F(PosixSocketDiagTest, NobodyElseIsTakenForOne) {
  const int port = PortOf(client_), own = PortOf(listener_);
  EXPECT_EQ(UserBySocketDiag("127.0.0.1", port, own + 1), std::nullopt) << "to another server";
  EXPECT_EQ(UserBySocketDiag("127.0.0.1", own, port), getuid()) << "our own end, which is this user's too";
  EXPECT_EQ(UserBySocketDiag("127.0.0.1", own, 1), std::nullopt) << "a listener is no connection";
  EXPECT_EQ(UserBySocketDiag("10.0.0.1", port, own), std::nullopt);
  EXPECT_EQ(UserBySocketDiag("::1", port, own), std::nullopt);
  client_ = UniqueFd();
  EXPECT_EQ(UserBySocketDiag("127.0.0.1", port, own), std::nullopt) << "closed by its owner";
}

}  // namespace
}  // namespace downpour
