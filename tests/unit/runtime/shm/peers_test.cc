#include "runtime/shm/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/posix/process.h"
#include "tests/unit/runtime/shm/shared_pair.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
constexpr PeerId kOurPs{1};
constexpr PeerId kGuest{static_cast<uint64_t>(PeerId::kFirstAccepted) + 5};

class SharedPeersTest : public testing::Test {
 protected:
  // What the event loops of both sides do until they wait.
  void Meet(SharedPeers& ps) {
    for (int i = 0; i < 4; ++i) {
      Look(ps);
      Look(worker_);
    }
  }
  std::vector<PeerId> Look(SharedPeers& peers) {
    std::vector<pollfd> waited_on;
    peers.AddTo(&waited_on);
    poll(waited_on.data(), waited_on.size(), 0);
    peers.Woken(waited_on.data());
    return peers.Tend(kNow);
  }
  SharedArena arena_;
  SharedPeers worker_{&arena_};
};

TEST_F(SharedPeersTest, TwoOfOneHostFindEachOther) {
  SharedPeers ps(&arena_);
  worker_.Visit(kOurPs, ps.Expect(kGuest, "key", worker_.Question().boot, kNow), kNow);
  EXPECT_EQ(worker_.Find(kOurPs), nullptr);
  Meet(ps);
  ASSERT_NE(worker_.Find(kOurPs), nullptr);
  ASSERT_NE(ps.Find(kGuest), nullptr);
  EXPECT_EQ(ps.KeyOf(kGuest), "key");
  EXPECT_EQ(ps.After(PeerId::kNone), kGuest);
  EXPECT_EQ(ps.After(kGuest), PeerId::kNone);
  ASSERT_EQ(worker_.Find(kOurPs)->Send(kNow, FramesOf({"12345"})), Link::Sending::kSent);
  worker_.Drop(kOurPs);
  EXPECT_EQ(worker_.bytes_out(), 5u) << "who is gone counts on";
}

TEST_F(SharedPeersTest, OfAnotherHostOrWithoutMemoryIsNoDoor) {
  SharedPeers ps(&arena_), without(nullptr);
  EXPECT_EQ(ps.Expect(kGuest, "", "another boot", kNow).address, "");
  EXPECT_EQ(ps.Expect(kGuest, "", "", kNow).address, "");
  EXPECT_EQ(without.Expect(kGuest, "", BootId(), kNow).address, "");
  EXPECT_EQ(without.Question().boot, "");
}

TEST_F(SharedPeersTest, WhoIsHungUpOnBeforeItComesIsNotLetIn) {
  SharedPeers ps(&arena_);
  worker_.Visit(kOurPs, ps.Expect(kGuest, "", worker_.Question().boot, kNow), kNow);
  ps.Drop(kGuest);
  Meet(ps);
  EXPECT_EQ(ps.Find(kGuest), nullptr);
  EXPECT_EQ(worker_.Find(kOurPs), nullptr);
}

TEST_F(SharedPeersTest, TheEndOfALinkIsToldOnce) {
  auto ps = std::make_unique<SharedPeers>(&arena_);
  worker_.Visit(kOurPs, ps->Expect(kGuest, "", worker_.Question().boot, kNow), kNow);
  Meet(*ps);
  ps.reset();
  Look(worker_);
  ASSERT_NE(worker_.Find(kOurPs), nullptr) << "what it said is read first";
  std::vector<Payload> frames;
  EXPECT_EQ(worker_.Find(kOurPs)->Receive(kNow, &frames), Link::Receipt::kNothing);
  EXPECT_THAT(Look(worker_), ElementsAre(kOurPs));
  EXPECT_EQ(worker_.Find(kOurPs), nullptr);
  EXPECT_THAT(Look(worker_), IsEmpty());
}

TEST_F(SharedPeersTest, WhoIsDroppedReadsOnWhatItWasLent) {
  SharedPeers ps(&arena_);
  worker_.Visit(kOurPs, ps.Expect(kGuest, "", worker_.Question().boot, kNow), kNow);
  Meet(ps);
  Payload values = Payload::AllocateFrom(arena_, 1 << 20);
  values.mutable_as<int>()[0] = 1;
  ASSERT_EQ(ps.Find(kGuest)->Send(kNow, {std::move(values)}), Link::Sending::kSent);
  std::vector<Payload> read;
  ASSERT_EQ(worker_.Find(kOurPs)->Receive(kNow, &read), Link::Receipt::kMessage);
  ps.Drop(kGuest);
  std::vector<Payload> others;
  for (int i = 0; i < 2; ++i) {
    others.push_back(Payload::AllocateFrom(arena_, 1 << 20));
    others.back().mutable_as<int>()[0] = 2;
  }
  EXPECT_EQ(read[0].as<int>()[0], 1);
}

// A process that was stopped sees the end of one ps and the door of the next at once.
TEST_F(SharedPeersTest, TheNextOneTakesThePlaceOfOneWhoseEndWasNotSeen) {
  auto ps = std::make_unique<SharedPeers>(&arena_);
  worker_.Visit(kOurPs, ps->Expect(kGuest, "", worker_.Question().boot, kNow), kNow);
  Meet(*ps);
  SharedPeers next(&arena_);
  worker_.Visit(kOurPs, next.Expect(kGuest, "", worker_.Question().boot, kNow), kNow);
  Look(next);
  EXPECT_THAT(Look(worker_), ElementsAre(kOurPs)) << "what was on its way is lost";
  ASSERT_EQ(worker_.Find(kOurPs)->Send(kNow, FramesOf({"to the next"})), Link::Sending::kSent);
  std::vector<Payload> frames;
  ASSERT_EQ(next.Find(kGuest)->Receive(kNow, &frames), Link::Receipt::kMessage);
  EXPECT_THAT(TextsOf(frames), ElementsAre("to the next"));
}

}  // namespace
}  // namespace downpour
