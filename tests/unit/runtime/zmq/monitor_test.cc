#include "runtime/zmq/monitor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "runtime/posix/fd.h"
#include "tests/unit/runtime/zmq/test_peer.h"

namespace downpour {
namespace {

using Event = ZmqMonitor::Event;

// The next event; a test that gets none in time has failed.
Event WaitFor(ZmqMonitor& monitor) {
  zmq::pollitem_t item{monitor.socket(), 0, ZMQ_POLLIN, 0};
  zmq::poll(&item, 1, std::chrono::milliseconds(kPatienceMs));
  return monitor.Next();
}

class ZmqMonitorTest : public testing::Test {
 protected:
  ZmqContext context_ = ZmqContext::Create(1).value();
  ZmqContext other_ = ZmqContext::Create(1).value();
};

TEST_F(ZmqMonitorTest, ConnectionsBeginAndEndWithOneDescriptor) {
  ZmqSocket listener = Listen(context_, "127.0.0.1:0").value();
  ZmqMonitor monitor = ZmqMonitor::Watch(context_, listener).value();
  std::optional<ZmqSocket> dialler = Connect(other_, listener.endpoint()).value();
  EXPECT_EQ(WaitFor(monitor), Event::kAccepted);
  const int fd = monitor.fd();
  EXPECT_EQ(WaitFor(monitor), Event::kShookHands);
  dialler.reset();
  EXPECT_EQ(WaitFor(monitor), Event::kEnded);
  EXPECT_EQ(monitor.fd(), fd);
}

TEST_F(ZmqMonitorTest, ASocketThatIsNoLongerWatchedGoesOn) {
  std::optional<ZmqContext> gone = ZmqContext::Create(1).value();
  std::optional<ZmqSocket> first = Listen(*gone, "127.0.0.1:0").value();
  const std::string endpoint = first->endpoint();
  std::optional<WatchedSocket> link = ConnectWatched(context_, endpoint).value();
  EXPECT_EQ(WaitFor(link->monitor), Event::kShookHands);
  ZmqChannel dialler(std::move(link->socket), ZmqChannel::Side::kDialler);
  link.reset();
  first.reset();
  gone.reset();  // an event that nobody reads
  ZmqChannel second(Listen(other_, endpoint).value(), ZmqChannel::Side::kListener);
  // What is sent before the dialler has noticed that the first one is gone is lost.
  bool heard = false;
  for (int i = 0; !heard && i < kPatienceMs / 20; ++i) {
    dialler.Send("", {Payload::Zeros(8)});
    heard = WaitReadable(second, 20);
  }
  EXPECT_TRUE(heard);
}

// Whether ZeroMQ greets who dials there; it closes the connection again.
bool Greets(const std::string& endpoint) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  pollfd greeting{fd.get(), POLLIN, 0};
  return poll(&greeting, 1, /*milliseconds=*/200) == 1;
}

TEST_F(ZmqMonitorTest, AWatchEndsHoweverMuchWasNotRead) {
  ZmqSocket listener = Listen(context_, "127.0.0.1:0").value();
  std::optional<ZmqMonitor> monitor = ZmqMonitor::Watch(context_, listener).value();
  while (Greets(listener.endpoint())) continue;  // until ZeroMQ's thread waits for somebody to read what happened
  monitor.reset();
  EXPECT_TRUE(Greets(listener.endpoint()));
}

}  // namespace
}  // namespace downpour
