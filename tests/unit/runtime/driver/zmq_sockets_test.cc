#include "runtime/driver/zmq_sockets.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <fstream>
#include <string>
#include <vector>

#include "runtime/driver/posix_fd.h"
#include "runtime/driver/zmq_frames.h"
#include "tests/unit/runtime/driver/zmq_test_peer.h"

namespace downpour {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string Said(const absl::Status& status) { return std::string(status.message()); }

TEST(ZmqSocketsTest, PortZeroIsChosenByTheKernelAndReported) {
  ZmqContext context = ZmqContext::Create(1).value();
  for (const std::string host : {"127.0.0.1", "127.1.2.3", "[::1]"}) {
    ZmqSocket socket = Listen(context, host + ":0").value();
    EXPECT_THAT(socket.endpoint(), StartsWith(host + ":"));
    EXPECT_THAT(socket.endpoint(), Not(EndsWith(":0")));
  }
  EXPECT_THAT(Listen(context, "localhost:0")->endpoint(), StartsWith("127.0.0.1:"));
}

TEST(ZmqSocketsTest, APortInUseIsOneClearSentence) {
  ZmqContext context = ZmqContext::Create(1).value();
  const ZmqSocket first = Listen(context, "127.0.0.1:0").value();
  const absl::Status second = Listen(context, first.endpoint()).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Said(second), HasSubstr("cannot listen on " + first.endpoint() + ": the port is in use"));
}

TEST(ZmqSocketsTest, APathInUseIsNotTakenAway) {
  const TempDir dir;
  const std::string endpoint = "ipc://" + dir / "socket";
  {
    ZmqContext context = ZmqContext::Create(1).value();
    const ZmqSocket first = Listen(context, endpoint).value();
    EXPECT_EQ(Listen(context, endpoint).status().code(), absl::StatusCode::kAlreadyExists);
  }
  std::ofstream(dir / "socket");  // a file without a process, as one that was killed leaves behind
  ZmqContext context = ZmqContext::Create(1).value();
  EXPECT_TRUE(Listen(context, endpoint).ok());
}

// A page in a browser may send a POST anywhere, and libzmq takes whatever does not begin with 0xff for ZMTP 1.0: the
// first letter for the length of an identity, which the rest of the request's line and header is, and the body for
// frames.
TEST(ZmqSocketsTest, AWebPagesPostIsNoMessage) {
  ZmqContext context = ZmqContext::Create(1).value();
  ZmqChannel listener(Listen(context, "127.0.0.1:0").value(), ZmqChannel::Side::kListener);
  const std::string endpoint = listener.socket().endpoint();
  const UniqueFd browser(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.find(':') + 1))));
  ASSERT_EQ(connect(browser.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  std::string post = "POST / HTTP/1.1\r\nHost: " + endpoint + "\r\nOrigin: http://elsewhere\r\nX: ";
  post.resize(1 + 'P', 'x');  // its length byte, and as many letters of identity with their flags
  post += std::string("\x05\x00stop", 6);
  ASSERT_EQ(send(browser.get(), post.data(), post.size(), MSG_NOSIGNAL), static_cast<ssize_t>(post.size()));
  // Cut off, or a message has come.
  std::string peer;
  std::vector<Payload> frames;
  auto heard = ZmqChannel::Receipt::kNothing;
  pollfd on[2] = {{browser.get(), POLLRDHUP, 0}, {listener.fd(), POLLIN, 0}};
  while (heard == ZmqChannel::Receipt::kNothing && on[0].revents == 0) {
    ASSERT_GT(poll(on, 2, -1), 0);
    heard = listener.Receive(&peer, &frames);
  }
  EXPECT_EQ(heard, ZmqChannel::Receipt::kNothing) << frames.size() << " frames";
}

TEST(ZmqSocketsTest, NothingListensWhereOthersCouldReachIt) {
  ZmqContext context = ZmqContext::Create(1).value();
  for (const std::string endpoint :
       {"0.0.0.0:0", "[::]:0", "10.0.0.1:0", "192.168.1.1:7000", "host.example:0", "128.0.0.1:0"}) {
    const absl::Status status = Listen(context, endpoint).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << endpoint;
    EXPECT_THAT(Said(status), HasSubstr("will not listen on " + endpoint + " without keys"));
  }
}

TEST(ZmqSocketsTest, WhatIsNoEndpointIsRefusedByBothSides) {
  ZmqContext context = ZmqContext::Create(1).value();
  for (const std::string endpoint :
       {"", "7000", ":7000", "127.0.0.1", "127.0.0.1:", "127.0.0.1:port", "127.0.0.1:65536", "127.0.0.1:-1", "*:7000",
        "tcp://127.0.0.1:7000", "inproc://x", "ipc://relative", "::1:7000", "[::1:7000", "127.0.0.1;10.0.0.1:7000"}) {
    EXPECT_EQ(Listen(context, endpoint).status().code(), absl::StatusCode::kInvalidArgument) << endpoint;
    EXPECT_EQ(Connect(context, endpoint).status().code(), absl::StatusCode::kInvalidArgument) << endpoint;
  }
}

TEST(ZmqSocketsTest, PortZeroIsOnlyForListening) {
  EXPECT_TRUE(CheckDialable("ipc:///tmp/socket").ok());
  EXPECT_TRUE(CheckDialable("no-such-host.example:7000").ok());
  EXPECT_EQ(CheckDialable("127.0.0.1:0").code(), absl::StatusCode::kInvalidArgument);
}

TEST(ZmqSocketsTest, AFolderThatIsNotThereIsNamed) {
  ZmqContext context = ZmqContext::Create(1).value();
  const TempDir dir;
  const std::string endpoint = "ipc://" + dir / "missing/socket";
  EXPECT_THAT(Said(Listen(context, endpoint).status()), HasSubstr("cannot listen on " + endpoint));
}

// The limits that are off, or endless, by default.
TEST(ZmqSocketsTest, SocketsCarryTheLimits) {
  ZmqContext context = ZmqContext::Create(1).value();
  ZmqSocket listener = Listen(context, "127.0.0.1:0").value();
  ZmqSocket dialler = Connect(context, listener.endpoint()).value();
  for (zmq::socket_t* socket : {&listener.get(), &dialler.get()}) {
    EXPECT_EQ(socket->get(zmq::sockopt::maxmsgsize), int64_t{4} << 20);
    EXPECT_EQ(socket->get(zmq::sockopt::linger), 0);
  }
}

}  // namespace
}  // namespace downpour
