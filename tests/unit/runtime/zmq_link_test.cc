#include "runtime/zmq_link.h"

#include <gtest/gtest.h>

#include <string>

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
  ZmqLink link_{Connect(context_, endpoint_).value(), PeerRole::kPs};
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

}  // namespace
}  // namespace downpour
