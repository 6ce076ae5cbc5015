#include "runtime/zmq/zap_handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "runtime/zmq/monitor.h"
#include "tests/unit/runtime/zmq/test_keys.h"
#include "tests/unit/runtime/zmq/test_peer.h"

namespace downpour {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class ZmqZapTest : public testing::Test {
 protected:
  void OpenDoor(std::function<bool(const std::string&)> lets_in) {
    zap_.emplace(ZapHandler::Open(context_, std::move(lets_in)).value());
  }
  bool Knows(const std::string& key) const { return keys_.chief.RoleOf(key).has_value(); }

  // What becomes of a dialler's first handshake.
  ZmqMonitor::Event Knock(const std::string& endpoint, const KeyRing* keys) {
    auto [socket, monitor] = ConnectWatched(context_, endpoint, keys).value();
    while (true) {
      if (zap_) zap_->Serve();
      zmq::pollitem_t item{monitor.socket(), 0, ZMQ_POLLIN, 0};
      zmq_poll(&item, 1, zap_ ? 1 : kPatienceMs);
      const ZmqMonitor::Event event = monitor.Next();
      if (event != ZmqMonitor::Event::kNone) return event;
    }
  }

  const TestKeys keys_;
  ZmqContext context_ = ZmqContext::Create(1).value();
  std::optional<ZapHandler> zap_;
};

TEST_F(ZmqZapTest, OnlyKeysOfTheClusterComeIn) {
  OpenDoor([this](const std::string& key) { return Knows(key); });
  const ZmqSocket listener = Listen(context_, "127.0.0.1:0", &keys_.chief).value();
  EXPECT_EQ(Knock(listener.endpoint(), &keys_.worker), ZmqMonitor::Event::kShookHands);
  EXPECT_EQ(zap_->last_refused(), "");
  KeyRing stranger = keys_.worker;
  stranger.own = MakeCurvePair();
  EXPECT_EQ(Knock(listener.endpoint(), &stranger), ZmqMonitor::Event::kKeyRefused);
  EXPECT_EQ(zap_->last_refused(), "127.0.0.1");
  KeyRing misled = keys_.worker;
  misled.known[static_cast<size_t>(PeerRole::kChief)] = {MakeCurvePair().public_key};
  EXPECT_EQ(Knock(listener.endpoint(), &misled), ZmqMonitor::Event::kHungUp);
  EXPECT_THAT(Knock(listener.endpoint(), nullptr),
              AnyOf(ZmqMonitor::Event::kNoCommonSpeech, ZmqMonitor::Event::kHungUp));  // whichever side sees it first
}

TEST_F(ZmqZapTest, TheSpeakersKeyComesWithWhatItSays) {
  OpenDoor([this](const std::string& key) { return Knows(key); });
  ZmqChannel listener(Listen(context_, "127.0.0.1:0", &keys_.chief).value(), ZmqChannel::Side::kListener);
  ZmqChannel dialler(Connect(context_, listener.socket().endpoint(), &keys_.worker).value(),
                     ZmqChannel::Side::kDialler);
  while (dialler.Send("", {Payload::CopyOf("x", 1)}) == ZmqChannel::Sending::kBusy) zap_->Serve();
  EXPECT_EQ(WaitFor(listener).receipt, ZmqChannel::Receipt::kMessage);
  EXPECT_EQ(listener.speaker(), keys_.worker.own.public_key);
}

TEST_F(ZmqZapTest, ASelfTestProvesThatStrangersAreRefused) {
  OpenDoor([this](const std::string& key) { return Knows(key); });
  for (const std::string endpoint : {"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"}) {
    const ZmqSocket listener = Listen(context_, endpoint, &keys_.chief).value();
    EXPECT_TRUE(ProveStrangersAreRefused(context_, listener.endpoint(), keys_.chief, *zap_).ok()) << endpoint;
  }
}

// The canary: a door that stands open is found.
TEST_F(ZmqZapTest, TheSelfTestFindsADoorThatStandsOpen) {
  OpenDoor([](const std::string&) { return true; });
  const ZmqSocket listener = Listen(context_, "127.0.0.1:0", &keys_.chief).value();
  const absl::Status status = ProveStrangersAreRefused(context_, listener.endpoint(), keys_.chief, *zap_);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a key that nobody knows was let in"));
}

TEST_F(ZmqZapTest, TheSelfTestFindsAListenerThatAsksForNoKeys) {
  OpenDoor([this](const std::string& key) { return Knows(key); });
  const ZmqSocket listener = Listen(context_, "127.0.0.1:0").value();
  const absl::Status status = ProveStrangersAreRefused(context_, listener.endpoint(), keys_.chief, *zap_);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("asks for no keys"));
}

TEST_F(ZmqZapTest, OneHandlerDecides) {
  OpenDoor([](const std::string&) { return false; });
  EXPECT_EQ(ZapHandler::Open(context_, [](const std::string&) { return true; }).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Nobody to ask: the key is right, and yet nobody comes in before somebody is there to say so.
TEST_F(ZmqZapTest, WithoutAHandlerNobodyComesIn) {
  ZmqChannel listener(Listen(context_, "127.0.0.1:0", &keys_.chief).value(), ZmqChannel::Side::kListener);
  zmq::socket_t events(context_.get(), zmq::socket_type::pair);
  const auto watch_all = [&](ZmqSocket& dialler) {
    EXPECT_EQ(zmq_socket_monitor(dialler.get().handle(), "inproc://all", ZMQ_EVENT_ALL), 0);
    events.connect("inproc://all");
    return absl::OkStatus();
  };
  const ZmqSocket socket =
      Connect(context_, listener.socket().endpoint(), &keys_.worker, PeerRole::kChief, watch_all).value();
  for (uint16_t event = 0; event != ZMQ_EVENT_DISCONNECTED && event != ZMQ_EVENT_CONNECT_RETRIED;) {
    zmq::message_t what, where;
    ASSERT_TRUE(events.recv(what) && events.recv(where));
    event = *what.data<uint16_t>();
    EXPECT_NE(event, ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  }
}

}  // namespace
}  // namespace downpour
