#include "runtime/zmq_link.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <string>

#include "runtime/zmq_zap.h"
#include "tests/unit/runtime/zmq_test_keys.h"
#include "tests/unit/runtime/zmq_test_peer.h"

namespace downpour {
namespace {

// A link to where nobody listens yet. Its clock is the test's.
class ZmqLinkTest : public testing::Test {
 protected:
  ZmqChannel Listener() { return ZmqChannel(Listen(context_, endpoint_).value(), ZmqChannel::Side::kListener); }
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

// What the next handshake of a link meets, whose clock says `now`.
ZmqLink::Refusal RefusalOf(ZmqLink& link, Time now, const KeyRing& keys, ZapHandler& zap) {
  for (long waited = 0; waited < kPatienceMs; ++waited) {
    if (const auto refusal = link.Tend(now, &keys)) return *refusal;
    zap.Serve();
    poll(nullptr, 0, /*milliseconds=*/1);
  }
  ADD_FAILURE() << "nobody refused it";
  return {};
}

TEST(ZmqLinkRefusedTest, WhoRefusesIsLeftAloneEverLonger) {
  const TestKeys keys, others;
  ZmqContext context = ZmqContext::Create(1).value();
  bool knows_us = false;
  ZapHandler zap = ZapHandler::Open(context, [&](const std::string&) { return knows_us; }).value();
  ZmqChannel listener(Listen(context, "127.0.0.1:0", &keys.chief).value(), ZmqChannel::Side::kListener);
  const std::string endpoint = listener.socket().endpoint();
  ZmqLink misled(ConnectWatched(context, endpoint, &others.worker).value(), PeerRole::kChief);
  ZmqLink unknown(ConnectWatched(context, endpoint, &keys.worker).value(), PeerRole::kChief);
  Time now{};
  for (const Duration pause : {1s, 2s, 4s, 8s, 16s, 16s}) {
    const ZmqLink::Refusal hung_up = RefusalOf(misled, now, others.worker, zap);
    EXPECT_EQ(hung_up.how, ZmqMonitor::Event::kHungUp);
    EXPECT_EQ(hung_up.pause, pause);
    const ZmqLink::Refusal refused = RefusalOf(unknown, now, keys.worker, zap);
    EXPECT_EQ(refused.how, ZmqMonitor::Event::kKeyRefused);
    EXPECT_EQ(refused.pause, pause);
    now += pause;
  }
  // Whoever mends the keys need not start anything again.
  knows_us = true;
  EXPECT_FALSE(unknown.Tend(now, &keys.worker));
  unknown.Send(now, {Payload::CopyOf("x", 1)});
  while (unknown.waiting()) {
    zap.Serve();
    poll(nullptr, 0, /*milliseconds=*/1);
    unknown.Flush(now);
  }
  EXPECT_EQ(WaitFor(listener).frames.size(), 1u);
}

}  // namespace
}  // namespace downpour
