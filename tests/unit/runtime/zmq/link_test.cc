#include "runtime/zmq/link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>

#include "runtime/zmq/zap_handler.h"
#include "tests/unit/runtime/zmq/test_keys.h"
#include "tests/unit/runtime/zmq/test_peer.h"

namespace downpour {
namespace {

// A link to where nobody listens yet. Its clock is the test's.
class ZmqLinkTest : public testing::Test {
 protected:
  // ZeroMQ closes a listener in its own time: until then the next one finds its path taken.
  ZmqChannel Listener() {
    absl::StatusOr<ZmqSocket> socket = Listen(context_, endpoint_);
    for (; absl::IsAlreadyExists(socket.status()); socket = Listen(context_, endpoint_)) poll(nullptr, 0, 1);
    return ZmqChannel(*std::move(socket), ZmqChannel::Side::kListener);
  }
  static std::vector<Payload> Word(const std::string& word) { return {Payload::CopyOf(word.data(), word.size())}; }
  static std::string Text(const Payload& p) { return std::string(reinterpret_cast<const char*>(p.data()), p.size()); }
  void FlushAll() {
    while (link_.waiting() && WaitWritable(link_.channel())) link_.Flush(now_);
  }

  TempDir dir_;
  const std::string endpoint_ = "ipc://" + dir_ / "s";
  ZmqContext context_ = ZmqContext::Create(1).value();
  ZmqLink link_{ConnectWatched(context_, endpoint_).value(), PeerRole::kPs};
  Time now_{};
};

TEST_F(ZmqLinkTest, WhatWasSentTooEarlyArrivesInOrder) {
  for (const std::string word : {"a", "b", "c"}) link_.Send(now_, Word(word));
  EXPECT_TRUE(link_.waiting());
  ZmqChannel listener = Listener();
  FlushAll();
  link_.Send(now_, Word("d"));
  for (const std::string word : {"a", "b", "c", "d"}) EXPECT_EQ(Text(WaitFor(listener).frames.at(0)), word);
  EXPECT_EQ(link_.TakeLost(), 0u);
}

TEST_F(ZmqLinkTest, WhatWaitedTooLongIsLost) {
  link_.Send(now_, Word("old"));
  now_ += ZmqLink::kPatience + 1ms;
  link_.Send(now_, Word("new"));
  ZmqChannel listener = Listener();
  FlushAll();
  EXPECT_EQ(Text(WaitFor(listener).frames.at(0)), "new");
}

TEST_F(ZmqLinkTest, TheOldestGiveWayToTheNewest) {
  for (size_t i = 0; i < ZmqLink::kWaitingMessages + 5; ++i) link_.Send(now_, Word(std::to_string(i)));
  EXPECT_EQ(link_.TakeLost(), 5u);
  const Payload megabyte = Payload::Zeros(size_t{1} << 20);
  for (size_t i = 0; i < 2 * ZmqLink::kWaitingMessages; ++i) link_.Send(now_, {megabyte});
  ZmqChannel listener = Listener();
  FlushAll();
  size_t bytes = 0;
  for (uint64_t i = 0; i < ZmqLink::kWaitingBytes >> 20; ++i) bytes += WaitFor(listener).frames.at(0).size();
  EXPECT_EQ(bytes, ZmqLink::kWaitingBytes);
  EXPECT_EQ(link_.TakeLost(), 3 * ZmqLink::kWaitingMessages - (ZmqLink::kWaitingBytes >> 20));
}

TEST_F(ZmqLinkTest, WhereNobodyAnswersItIsTimeToLookWhyEverMoreSeldom) {
  EXPECT_FALSE(link_.DueToLook(now_));
  for (Duration silence = ZmqLink::kFirstLook; silence <= ZmqLink::kRarestLook; silence *= 2) {
    EXPECT_FALSE(link_.DueToLook(now_ + silence - 1ms));
    EXPECT_TRUE(link_.DueToLook(now_ += silence));
  }
  EXPECT_TRUE(link_.DueToLook(now_ += ZmqLink::kRarestLook));
  ZmqChannel listener = Listener();
  link_.Send(now_, Word("a"));
  FlushAll();
  WaitFor(listener);
  EXPECT_EQ(link_.Tend(now_), ZmqMonitor::Event::kShookHands);
  EXPECT_FALSE(link_.DueToLook(Time::max()));
}

// The first connection loses nothing that waited for it in time; each later one comes after an end.
TEST_F(ZmqLinkTest, SaysWhenItStandsAgainAndMayHaveLostWords) {
  const auto shake_hands = [&] {
    link_.Send(now_, Word("a"));
    FlushAll();
    while (link_.Tend(now_) != ZmqMonitor::Event::kShookHands) poll(nullptr, 0, /*milliseconds=*/1);
  };
  {
    ZmqChannel listener = Listener();
    shake_hands();
    EXPECT_FALSE(link_.TakeReconnected());
  }
  ZmqChannel successor = Listener();
  shake_hands();
  EXPECT_TRUE(link_.TakeReconnected());
  EXPECT_FALSE(link_.TakeReconnected()) << "once for each time";
}

TEST_F(ZmqLinkTest, WhatWaitedTooLongForTheFirstConnectionIsLostAsWell) {
  link_.Send(now_, Word("old"));
  now_ += ZmqLink::kPatience + 1ms;
  link_.Flush(now_);
  ZmqChannel listener = Listener();
  link_.Send(now_, Word("new"));
  FlushAll();
  while (link_.Tend(now_) != ZmqMonitor::Event::kShookHands) poll(nullptr, 0, /*milliseconds=*/1);
  EXPECT_TRUE(link_.TakeReconnected());
}

// A listener with keys and a handler that lets in whom the test says. Links' clocks are the test's.
class ZmqLinkRefusedTest : public testing::Test {
 protected:
  ZmqLink Dial(const KeyRing& keys) {
    return ZmqLink(ConnectWatched(context_, listener_.socket().endpoint(), &keys).value(), PeerRole::kChief);
  }
  void ServeUntil(const std::function<bool()>& condition) {
    for (long waited = 0; !condition() && waited < kPatienceMs; ++waited) {
      zap_.Serve();
      poll(nullptr, 0, /*milliseconds=*/1);
    }
    EXPECT_TRUE(condition());
  }
  ZmqMonitor::Event OutcomeOf(ZmqLink& link, Time now) {
    std::optional<ZmqMonitor::Event> outcome;
    ServeUntil([&] { return outcome || (outcome = link.Tend(now)); });
    return outcome.value_or(ZmqMonitor::Event::kNone);
  }
  static void ExpectPause(ZmqLink& link, Time now, Duration pause, const KeyRing& keys) {
    EXPECT_FALSE(link.DueToDial(now + pause - 1ms));
    EXPECT_TRUE(link.DueToDial(now + pause));
    link.DialAgain(&keys);
    EXPECT_FALSE(link.DueToDial(now + pause));
  }

  const TestKeys keys_, others_;
  ZmqContext context_ = ZmqContext::Create(1).value();
  bool knows_us_ = false;
  ZapHandler zap_ = ZapHandler::Open(context_, [this](const std::string&) { return knows_us_; }).value();
  ZmqChannel listener_{Listen(context_, "127.0.0.1:0", &keys_.chief).value(), ZmqChannel::Side::kListener};
};

TEST_F(ZmqLinkRefusedTest, WhoKnowsUsForStrangersIsLeftAloneEverLonger) {
  ZmqLink misled = Dial(others_.worker), unknown = Dial(keys_.worker);
  Time now{};
  for (const Duration pause : {1s, 2s, 4s, 8s, 16s, 16s}) {
    EXPECT_EQ(OutcomeOf(misled, now), ZmqMonitor::Event::kHungUp);
    ExpectPause(misled, now, 1s, others_.worker);  // it may be a relay whose server will be back
    EXPECT_EQ(OutcomeOf(unknown, now), ZmqMonitor::Event::kKeyRefused);
    ExpectPause(unknown, now, pause, keys_.worker);
    now += pause;
  }
  // Whoever mends the keys need not start anything again.
  knows_us_ = true;
  EXPECT_EQ(OutcomeOf(unknown, now), ZmqMonitor::Event::kShookHands);
  unknown.Send(now, {Payload::CopyOf("x", 1)});
  ServeUntil([&] { return unknown.Flush(now), !unknown.waiting(); });
  EXPECT_EQ(WaitFor(listener_).frames.size(), 1u);
}

// A listener that is started again may hang up on one attempt and take the next, before anybody has looked.
TEST_F(ZmqLinkRefusedTest, TheLastOfSeveralHandshakesCounts) {
  const int hangs_up = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t bytes = sizeof(address);
  const int on = 1;
  ASSERT_EQ(setsockopt(hangs_up, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)),
            0);  // so that the next one may have the port
  ASSERT_EQ(bind(hangs_up, reinterpret_cast<sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(listen(hangs_up, 1), 0);
  ASSERT_EQ(getsockname(hangs_up, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  const std::string endpoint = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  ZmqLink link(ConnectWatched(context_, endpoint).value(), PeerRole::kChief);
  close(accept(hangs_up, nullptr, nullptr));
  close(hangs_up);
  ZmqContext its_own = ZmqContext::Create(1).value();  // that of `link` has a handler, and admits none without a key
  ZmqChannel listener(Listen(its_own, endpoint).value(), ZmqChannel::Side::kListener);
  link.Send(Time{}, {Payload::CopyOf("x", 1)});
  ServeUntil([&] { return link.Flush(Time{}), !link.waiting(); });
  EXPECT_EQ(WaitFor(listener).frames.size(), 1u);  // so the handshake was done
  EXPECT_EQ(link.Tend(Time{}), ZmqMonitor::Event::kShookHands);
  EXPECT_FALSE(link.DueToDial(Time::max()));
}

}  // namespace
}  // namespace downpour
