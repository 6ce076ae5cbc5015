#include "runtime/zmq/sockets.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/posix/fd.h"
#include "runtime/zmq/frames.h"
#include "schema/host_port.h"
#include "tests/unit/runtime/zmq/test_peer.h"

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

UniqueFd DialRaw(const std::string& endpoint) {
  const HostPort at = ParseHostPort(endpoint).value();
  const uint16_t port = htons(static_cast<uint16_t>(at.port));
  const bool is_v6 = at.host == "::1";
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = port;
  v6.sin6_addr = in6addr_loopback;
  sockaddr_in v4{.sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  UniqueFd link(socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* address = is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  EXPECT_EQ(connect(link.get(), address, is_v6 ? sizeof(v6) : sizeof(v4)), 0) << endpoint;
  return link;
}

// In vain where the listener has hung up already.
void Say(const UniqueFd& link, const std::string& bytes) {
  [[maybe_unused]] const ssize_t sent = send(link.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void WaitFor(const UniqueFd& link, const std::string& word) {
  std::string heard;
  char block[256];
  for (ssize_t got = 1; got > 0 && heard.find(word) == std::string::npos;) {
    got = recv(link.get(), block, sizeof(block), 0);
    heard.append(block, std::max<ssize_t>(0, got));
  }
}

// Whether a listener takes a message from a peer that says `hello`, and that after the answer `answer`, or cuts it off.
bool Admits(const std::string& host, const std::string& hello, const std::string& answer, const std::string& message) {
  ZmqContext context = ZmqContext::Create(1).value();
  ZmqChannel listener(Listen(context, host + ":0").value(), ZmqChannel::Side::kListener);
  const UniqueFd link = DialRaw(listener.socket().endpoint());
  Say(link, answer.empty() ? hello + message : hello);
  if (!answer.empty()) WaitFor(link, answer);
  if (!answer.empty()) Say(link, message);
  std::string peer;
  std::vector<Payload> frames;
  pollfd on[2] = {{link.get(), POLLRDHUP, 0}, {listener.fd(), POLLIN, 0}};
  while (true) {
    if (listener.Receive(&peer, &frames) == ZmqChannel::Receipt::kMessage) return true;
    if (on[0].revents != 0) return false;
    if (poll(on, 2, -1) < 0) return false;
  }
}

// A page in a browser may send a POST anywhere, and libzmq takes whatever does not begin with 0xff for ZMTP 1.0: the
// first letter for the length of an identity, which the rest of the request's line and header is, and the body for
// frames. What is of ZMTP 2.0 has no mechanism either. Only a peer of ZMTP 3 says how it means to prove who it is.
TEST(ZmqSocketsTest, OnlyPeersOfZmtp3AreAdmittedByEitherInternetProtocol) {
  const std::string signature = std::string("\xff\0\0\0\0\0\0\0\0\x7f", 10);
  const std::string stop = std::string("\0\x04stop", 6);
  std::string post = "POST / HTTP/1.1\r\nHost: h\r\nOrigin: http://elsewhere\r\nX: ";
  post.resize(1 + 'P', 'x');  // its length byte, and as many letters of identity with their flags
  const std::string zmtp2 = signature + std::string("\x01\x05\0\0", 4);  // a DEALER without an identity
  std::string null = "NULL";
  null.resize(20 + 1 + 31);
  const std::string ready = std::string("\x05READY\x0bSocket-Type\0\0\0\x06", 22) + "DEALER";
  const std::string zmtp3 =
      signature + std::string("\x03\0", 2) + null + "\x04" + static_cast<char>(ready.size()) + ready;
  for (const std::string host : {"127.0.0.1", "[::1]"}) {
    EXPECT_FALSE(Admits(host, post, "", std::string("\x05\0stop", 6))) << "a POST at " << host;
    EXPECT_FALSE(Admits(host, zmtp2, "", stop)) << "ZMTP 2.0 at " << host;
    EXPECT_TRUE(Admits(host, zmtp3, "READY", stop)) << "ZMTP 3.0 at " << host;
  }
}

TEST(ZmqSocketsTest, APathAdmitsNobodyByKey) {
  EXPECT_TRUE(AdmitsByKey("127.0.0.1:0", /*with_keys=*/true));
  EXPECT_FALSE(AdmitsByKey("127.0.0.1:0", /*with_keys=*/false));
  EXPECT_FALSE(AdmitsByKey("ipc:///tmp/chief", /*with_keys=*/true));
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
