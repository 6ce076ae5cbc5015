#include "runtime/driver/zmq_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

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
