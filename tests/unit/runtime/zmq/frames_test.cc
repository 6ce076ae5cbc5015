#include "runtime/zmq/frames.h"

#include <gtest/gtest.h>
#include <zmq.h>

#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "schema/codec.h"
#include "tests/unit/runtime/zmq/test_peer.h"

namespace downpour {
namespace {

using Receipt = ZmqChannel::Receipt;
using Sending = ZmqChannel::Sending;

Payload Patterned(size_t bytes, unsigned seed) {
  Payload payload = Payload::Allocate(bytes);
  for (size_t i = 0; i < bytes; ++i) payload.mutable_data()[i] = static_cast<std::byte>(i * 31 + seed);
  return payload;
}

bool SameBytes(const Payload& a, const Payload& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

TEST(ZmqChannelTest, WithoutAListenerADiallerIsBusy) {
  const TempDir dir;
  ZmqContext context = ZmqContext::Create(1).value();
  ZmqChannel dialler(Connect(context, "ipc://" + dir / "nobody").value(), ZmqChannel::Side::kDialler);
  EXPECT_EQ(dialler.Send("", {Patterned(10, 0)}), Sending::kBusy);
}

// One listener and one dialler, over TCP and over ipc.
class ZmqFramesTest : public testing::TestWithParam<bool> {
 protected:
  ZmqChannel Dial() {
    return ZmqChannel(Connect(context_, listener_.socket().endpoint()).value(), ZmqChannel::Side::kDialler);
  }

  // Connects, and learns the routing id that ZeroMQ drew.
  std::string Introduce(ZmqChannel& dialler) {
    EXPECT_TRUE(WaitWritable(dialler));
    EXPECT_EQ(dialler.Send("", {Patterned(3, 0)}), Sending::kSent);
    return WaitFor(listener_).peer;
  }

  TempDir dir_;
  ZmqContext context_ = ZmqContext::Create(1).value();
  ZmqChannel listener_{Listen(context_, GetParam() ? "127.0.0.1:0" : "ipc://" + dir_ / "s").value(),
                       ZmqChannel::Side::kListener};
};
INSTANTIATE_TEST_SUITE_P(TcpAndIpc, ZmqFramesTest, testing::Bool(),
                         [](const auto& about) { return about.param ? "tcp" : "ipc"; });

TEST_P(ZmqFramesTest, FramesArriveAsTheyWereSentBothWays) {
  ZmqChannel dialler = Dial();
  const std::string peer = Introduce(dialler);
  std::vector<Payload> frames;
  for (size_t bytes : {0, 1, 33, 34, 2048, 2049, 8191, 65536, 1 << 20, 4 << 20}) frames.push_back(Patterned(bytes, 7));
  for (bool to_listener : {true, false}) {
    ASSERT_EQ(to_listener ? dialler.Send("", frames) : listener_.Send(peer, frames), Sending::kSent);
    const Parcel parcel = WaitFor(to_listener ? listener_ : dialler);
    EXPECT_EQ(parcel.peer, to_listener ? peer : "");
    ASSERT_EQ(parcel.frames.size(), frames.size());
    for (size_t i = 0; i < frames.size(); ++i) EXPECT_TRUE(SameBytes(parcel.frames[i], frames[i])) << i;
  }
}

TEST_P(ZmqFramesTest, FloatsInReceivedFramesMayBeReadInPlace) {
  ZmqChannel dialler = Dial();
  Introduce(dialler);
  for (size_t bytes = 4; bytes <= 16384; bytes += 100)
    ASSERT_EQ(dialler.Send("", {Patterned(3, 0), Patterned(bytes, 1)}), Sending::kSent) << bytes;
  for (size_t bytes = 4; bytes <= 16384; bytes += 100) {
    const Parcel parcel = WaitFor(listener_);
    ASSERT_EQ(parcel.frames.size(), 2u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(parcel.frames[1].data()) % alignof(double), 0u) << bytes;
  }
}

TEST_P(ZmqFramesTest, ALargeFrameIsLentAndGivenBack) {
  ZmqChannel dialler = Dial();
  Introduce(dialler);
  std::promise<void> given_back;
  {
    const std::vector<std::byte> bytes(1 << 20);
    Payload lent = Payload::Adopt(bytes.data(), bytes.size(), [&] { given_back.set_value(); });
    ASSERT_EQ(dialler.Send("", {std::exchange(lent, Payload())}), Sending::kSent);
    EXPECT_EQ(WaitFor(listener_).frames.size(), 1u);
    EXPECT_EQ(given_back.get_future().wait_for(std::chrono::milliseconds(kPatienceMs)), std::future_status::ready);
  }
}

TEST_P(ZmqFramesTest, APeerThatIsNotThereIsGone) {
  EXPECT_EQ(listener_.Send("nobody", {Patterned(10, 0), Patterned(5000, 0)}), Sending::kGone);
  // The frames of the failed message do not become part of the next one.
  ZmqChannel dialler = Dial();
  const std::string peer = Introduce(dialler);
  ASSERT_EQ(listener_.Send(peer, {Patterned(20, 1)}), Sending::kSent);
  EXPECT_EQ(WaitFor(dialler).frames.size(), 1u);
}

TEST_P(ZmqFramesTest, ABurstOfTwoHundredMegabytesIsNotLost) {
  ZmqChannel dialler = Dial();
  const std::string peer = Introduce(dialler);
  const Payload megabyte = Patterned(1 << 20, 3);
  for (unsigned i = 0; i < 200; ++i) ASSERT_EQ(listener_.Send(peer, {Patterned(8, i), megabyte}), Sending::kSent) << i;
  for (unsigned i = 0; i < 200; ++i) {
    const Parcel parcel = WaitFor(dialler);
    ASSERT_EQ(parcel.frames.size(), 2u) << i;
    EXPECT_TRUE(SameBytes(parcel.frames[0], Patterned(8, i)));
    EXPECT_EQ(parcel.frames[1].size(), megabyte.size());
  }
}

TEST_P(ZmqFramesTest, APeerThatDoesNotReadIsBusyAndLosesNothingThatWasSent) {
  ZmqChannel dialler = Dial();
  const std::string peer = Introduce(dialler);
  const Payload megabyte = Patterned(1 << 20, 3);
  unsigned sent = 0;
  Sending result = Sending::kSent;
  for (; sent < 1000 && result == Sending::kSent; sent += result == Sending::kSent) {
    result = listener_.Send(peer, {Patterned(8, sent), megabyte});
  }
  EXPECT_EQ(result, Sending::kBusy);
  for (unsigned i = 0; i < sent; ++i) ASSERT_TRUE(SameBytes(WaitFor(dialler).frames.at(0), Patterned(8, i)));
}

TEST_P(ZmqFramesTest, AnEndlessMessageIsDroppedAndTheNextOneArrives) {
  ZmqChannel hostile = Dial();
  Introduce(hostile);
  const std::vector<Payload> bomb(3 * kMaxFrames, Patterned(100, 0));
  ASSERT_EQ(hostile.Send("", bomb), Sending::kSent);
  ASSERT_EQ(hostile.Send("", {Patterned(5, 9)}), Sending::kSent);
  EXPECT_EQ(WaitFor(listener_).receipt, Receipt::kTooMany);
  const Parcel next = WaitFor(listener_);
  EXPECT_EQ(next.receipt, Receipt::kMessage);
  ASSERT_EQ(next.frames.size(), 1u);
  EXPECT_TRUE(SameBytes(next.frames[0], Patterned(5, 9)));
}

TEST_P(ZmqFramesTest, AnOversizeFrameEndsItsConnectionOnly) {
  ZmqChannel good = Dial();
  const std::string peer = Introduce(good);
  ZmqChannel hostile = Dial();
  Introduce(hostile);
  ASSERT_EQ(hostile.Send("", {Payload::Zeros(kMaxHeaderBytes + 1)}), Sending::kSent);
  ASSERT_EQ(good.Send("", {Patterned(6, 4)}), Sending::kSent);
  const Parcel parcel = WaitFor(listener_);
  EXPECT_EQ(parcel.peer, peer);
  EXPECT_TRUE(SameBytes(parcel.frames.at(0), Patterned(6, 4)));
}

TEST_P(ZmqFramesTest, BytesAreCounted) {
  ZmqChannel dialler = Dial();
  Introduce(dialler);
  ASSERT_EQ(dialler.Send("", {Patterned(100, 0), Patterned(5000, 0)}), Sending::kSent);
  WaitFor(listener_);
  EXPECT_EQ(dialler.bytes_out(), 5103u);
  EXPECT_EQ(listener_.bytes_in(), 5103u);
}

}  // namespace
}  // namespace downpour
