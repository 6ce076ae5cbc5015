#include "runtime/shm/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "schema/limits.h"
#include "tests/unit/runtime/shm/shared_pair.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using Receipt = Link::Receipt;
using Sending = Link::Sending;

std::vector<std::string> Next(SharedLink& link) {
  link.NoteReadable();
  std::vector<Payload> frames;
  return link.Receive(kNow, &frames) == Receipt::kMessage ? TextsOf(frames) : std::vector<std::string>();
}

const std::string kLarge(100'000, 'g');

TEST(SharedLinkTest, SmallAndLargeFramesGoBothWays) {
  SharedPair pair;
  EXPECT_EQ(pair.dialler().Send(kNow, FramesOf({"header", kLarge, ""})), Sending::kSent);
  EXPECT_THAT(Next(pair.listener()), ElementsAre("header", kLarge, ""));
  EXPECT_EQ(pair.listener().Send(kNow, FramesOf({"answer", kLarge})), Sending::kSent);
  EXPECT_THAT(Next(pair.dialler()), ElementsAre("answer", kLarge));
  EXPECT_TRUE(Next(pair.dialler()).empty());
  EXPECT_FALSE(pair.dialler().ended());
  EXPECT_EQ(pair.dialler().bytes_out(), 100'006u);
  EXPECT_EQ(pair.listener().bytes_in(), 100'006u);
}

TEST(SharedLinkTest, ADiallerReadsWhereTheListenerWroteAndAListenerCopies) {
  SharedPair pair;
  pair.listener();
  Payload values = Payload::AllocateFrom(pair.listeners_arena, 1 << 20);
  values.mutable_as<int>()[77] = 1;
  ASSERT_EQ(pair.listener().Send(kNow, {values}), Sending::kSent);
  pair.dialler().NoteReadable();
  std::vector<Payload> read;
  ASSERT_EQ(pair.dialler().Receive(kNow, &read), Receipt::kMessage);
  auto* const written = const_cast<int*>(values.as<int>().data());
  written[77] = 2;
  EXPECT_EQ(read[0].as<int>()[77], 2) << "it is the same memory";

  Payload gradient = Payload::AllocateFrom(pair.diallers_arena, 1 << 20);
  gradient.mutable_as<int>()[77] = 1;
  ASSERT_EQ(pair.dialler().Send(kNow, {gradient}), Sending::kSent);
  pair.listener().NoteReadable();
  std::vector<Payload> checked;
  ASSERT_EQ(pair.listener().Receive(kNow, &checked), Receipt::kMessage);
  const_cast<int*>(gradient.as<int>().data())[77] = 2;
  EXPECT_EQ(checked[0].as<int>()[77], 1) << "what was checked must not change";
}

TEST(SharedLinkTest, ASenderHoldsWhatIsReadUntilItIsGivenBack) {
  SharedPair pair;
  pair.listener();
  Payload values = Payload::AllocateFrom(pair.listeners_arena, 1 << 20);
  ASSERT_EQ(pair.listener().Send(kNow, {values}), Sending::kSent);
  EXPECT_FALSE(values.unique());
  pair.dialler().NoteReadable();
  std::vector<Payload> read;
  ASSERT_EQ(pair.dialler().Receive(kNow, &read), Receipt::kMessage);
  ASSERT_EQ(pair.listener().Send(kNow, FramesOf({"next"})), Sending::kSent);
  EXPECT_FALSE(values.unique()) << "it is still read";
  read.clear();
  ASSERT_EQ(pair.listener().Send(kNow, FramesOf({"next"})), Sending::kSent);
  EXPECT_TRUE(values.unique());
}

TEST(SharedLinkTest, AReaderMayHoldWhatItReadBeyondTheLinksEnd) {
  SharedPair pair;
  pair.dialler();
  std::vector<Payload> read;
  {
    SharedArena arena;
    {
      SharedLink listener(SharedLink::Side::kListener, pair.listeners_memory, std::move(pair.listeners_socket), &arena);
      ASSERT_EQ(listener.Send(kNow, FramesOf({kLarge})), Sending::kSent);
      pair.dialler().NoteReadable();
      ASSERT_EQ(pair.dialler().Receive(kNow, &read), Receipt::kMessage);
    }
  }
  pair.dialled.reset();
  pair.listeners_memory.reset();
  pair.diallers_memory.reset();
  EXPECT_EQ(TextsOf(read), std::vector<std::string>{kLarge});
}

// Two blocks, since one that was given back would be the first to be used again.
void WriteOver(SharedArena& arena) {
  std::vector<Payload> others;
  for (int i = 0; i < 2; ++i) {
    others.push_back(Payload::AllocateFrom(arena, 1 << 20));
    others.back().mutable_as<int>()[0] = 2;
  }
}

Payload MegabyteOf(SharedArena& arena, int number) {
  Payload payload = Payload::AllocateFrom(arena, 1 << 20);
  payload.mutable_as<int>()[0] = number;
  return payload;
}

TEST(SharedLinkTest, WhoPartsKeepsWhatItsPeerReads) {
  SharedPair pair;
  ASSERT_EQ(pair.listener().Send(kNow, {MegabyteOf(pair.listeners_arena, 1)}), Sending::kSent);
  pair.dialler().NoteReadable();
  std::vector<Payload> read;
  ASSERT_EQ(pair.dialler().Receive(kNow, &read), Receipt::kMessage);
  pair.listener().Part();
  EXPECT_FALSE(pair.listener().HasParted());
  WriteOver(pair.listeners_arena);
  EXPECT_EQ(read[0].as<int>()[0], 1);
  EXPECT_TRUE(Next(pair.dialler()).empty());
  EXPECT_TRUE(pair.dialler().ended()) << "it was told";
  EXPECT_EQ(pair.dialler().Send(kNow, FramesOf({"late"})), Sending::kGone);
  pair.dialled.reset();
  EXPECT_FALSE(pair.listener().HasParted()) << "it still reads";
  read.clear();
  EXPECT_TRUE(pair.listener().HasParted());
}

TEST(SharedLinkTest, WhoseReadingEndedByItsDeathNeedsNothingAnyMore) {
  SharedPair pair;
  ASSERT_EQ(pair.listener().Send(kNow, {MegabyteOf(pair.listeners_arena, 1)}), Sending::kSent);
  pair.listener().Part();
  EXPECT_FALSE(pair.listener().HasParted());
  pair.diallers_socket = UniqueFd();
  EXPECT_TRUE(pair.listener().HasParted());
}

TEST(SharedLinkTest, WhatWasUnreadWhenItsSenderPartedIsReadAsItWas) {
  SharedPair pair;
  pair.listener();
  ASSERT_EQ(pair.dialler().Send(kNow, {MegabyteOf(pair.diallers_arena, 1)}), Sending::kSent);
  pair.dialler().Part();
  EXPECT_FALSE(pair.dialler().HasParted());
  WriteOver(pair.diallers_arena);
  pair.listener().NoteReadable();
  std::vector<Payload> read;
  ASSERT_EQ(pair.listener().Receive(kNow, &read), Receipt::kMessage);
  EXPECT_EQ(read[0].as<int>()[0], 1);
  EXPECT_FALSE(pair.listener().ended()) << "there may be more";
  EXPECT_TRUE(Next(pair.listener()).empty());
  EXPECT_TRUE(pair.listener().ended());
  EXPECT_TRUE(pair.dialler().HasParted());
}

TEST(SharedLinkTest, APeerThatWaitsIsWokenByAParting) {
  SharedPair pair;
  pair.dialler();
  ASSERT_TRUE(pair.listener().Drained());
  pair.dialler().Part();
  pollfd waits = {pair.listener().fd(), POLLIN, 0};
  EXPECT_EQ(poll(&waits, 1, 0), 1);
}

TEST(SharedLinkTest, WhatAPeerSaidBeforeItWentIsHeard) {
  SharedPair pair;
  pair.listener();
  ASSERT_EQ(pair.dialler().Send(kNow, FramesOf({"one"})), Sending::kSent);
  ASSERT_EQ(pair.dialler().Send(kNow, FramesOf({"two"})), Sending::kSent);
  pair.dialled.reset();
  EXPECT_THAT(Next(pair.listener()), ElementsAre("one"));
  EXPECT_FALSE(pair.listener().ended());
  EXPECT_THAT(Next(pair.listener()), ElementsAre("two"));
  EXPECT_TRUE(Next(pair.listener()).empty());
  EXPECT_TRUE(pair.listener().ended());
  EXPECT_FALSE(pair.listener().broken());
  EXPECT_EQ(pair.listener().Send(kNow, FramesOf({"late"})), Sending::kGone);
}

TEST(SharedLinkTest, APeerThatDoesNotReadIsBusyAndLosesNothingLater) {
  SharedPair pair;
  pair.listener();
  size_t sent = 0;
  while (pair.dialler().Send(kNow, FramesOf({std::string(4000, 'x')})) == Sending::kSent) ++sent;
  EXPECT_GT(sent, 100u);
  EXPECT_LT(sent, 200u) << "the ring is full";
  for (size_t i = 0; i < sent; ++i) ASSERT_EQ(Next(pair.listener()).size(), 1u);
  EXPECT_EQ(pair.dialler().Send(kNow, FramesOf({"now"})), Sending::kSent);
  EXPECT_THAT(Next(pair.listener()), ElementsAre("now"));
}

TEST(SharedLinkTest, TooManyFramesAreCountedAndDropped) {
  SharedPair pair;
  pair.listener();
  ASSERT_EQ(pair.dialler().Send(kNow, std::vector<Payload>(kMaxFrames + 1)), Sending::kSent);
  std::vector<Payload> frames;
  EXPECT_EQ(pair.listener().Receive(kNow, &frames), Receipt::kTooMany);
  EXPECT_TRUE(frames.empty());
}

TEST(SharedLinkTest, AWaitingPeerIsWokenByItsDescriptor) {
  SharedPair pair;
  ASSERT_TRUE(pair.listener().Drained());
  pollfd waits = {pair.listener().fd(), POLLIN, 0};
  EXPECT_EQ(poll(&waits, 1, 0), 0);
  ASSERT_EQ(pair.dialler().Send(kNow, FramesOf({"wake"})), Sending::kSent);
  EXPECT_EQ(poll(&waits, 1, 0), 1);
  EXPECT_THAT(Next(pair.listener()), ElementsAre("wake"));
  EXPECT_EQ(poll(&waits, 1, 0), 0) << "its byte was taken";
  ASSERT_EQ(pair.dialler().Send(kNow, FramesOf({"awake"})), Sending::kSent);
  EXPECT_EQ(poll(&waits, 1, 0), 0) << "no system call for a peer that is awake";
  EXPECT_FALSE(pair.listener().Drained());
}

// Its loop had other work each time that it was about to wait, so it never looked at its descriptor.
TEST(SharedLinkTest, WakesOfAPeerThatNeverWaitedHideNoChunk) {
  SharedPair pair;
  std::vector<Payload> frames;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pair.listener().Drained());
    ASSERT_EQ(pair.dialler().Send(kNow, FramesOf({"wake"})), Sending::kSent);
    ASSERT_EQ(pair.listener().Receive(kNow, &frames), Receipt::kMessage);
  }
  ASSERT_EQ(pair.dialler().Send(kNow, FramesOf({kLarge})), Sending::kSent);
  ASSERT_EQ(pair.listener().Receive(kNow, &frames), Receipt::kMessage);
  EXPECT_THAT(TextsOf(frames), ElementsAre(kLarge));
}

// A record as a peer may write it: any numbers.
struct Head {
  uint64_t bytes, offset;
  uint32_t chunk, slot, turn, unused;
};
class HostileTest : public testing::Test {
 protected:
  HostileTest() { pair_.listener(); }
  void Say(uint64_t count, const std::vector<Head>& heads, const std::string& rest = "") {
    std::string record(reinterpret_cast<const char*>(&count), sizeof(count));
    record.append(reinterpret_cast<const char*>(heads.data()), heads.size() * sizeof(Head));
    record += rest;
    auto* const words = reinterpret_cast<RingWords*>(pair_.diallers_memory->data());
    RingWriter writer(words, BytesOfRing(), SharedLink::kRingBytes);
    ASSERT_TRUE(writer.Begin(record.size()));
    writer.Put(record.data(), record.size());
    writer.Publish();
  }
  std::byte* BytesOfRing() {  // of what goes to the listener: behind the words and what is given back
    const size_t before = 2 * sizeof(RingWords) + 2 * SharedLink::kSlots * sizeof(uint32_t) + 64;
    return pair_.diallers_memory->data() + before;
  }
  bool Breaks() {
    const bool heard = !Next(pair_.listener()).empty();
    return !heard && pair_.listener().broken() && pair_.listener().ended();
  }
  SharedPair pair_;
};

TEST_F(HostileTest, AnHonestRecordWrittenThisWayIsHeard) {
  Say(1, {{.bytes = 2, .offset = 0, .chunk = UINT32_MAX, .slot = 0, .turn = 0, .unused = 0}}, "ok");
  EXPECT_THAT(Next(pair_.listener()), ElementsAre("ok"));
}
TEST_F(HostileTest, MoreFramesThanBytes) {
  Say(UINT64_MAX / 32, {});
  EXPECT_TRUE(Breaks());
}
TEST_F(HostileTest, BytesBeyondTheRecord) {
  Say(1, {{.bytes = 3, .offset = 0, .chunk = UINT32_MAX, .slot = 0, .turn = 0, .unused = 0}}, "ok");
  EXPECT_TRUE(Breaks());
}
TEST_F(HostileTest, AChunkThatWasNeverHandedOver) {
  Say(1, {{.bytes = 8192, .offset = 0, .chunk = 0, .slot = 0, .turn = 1, .unused = 0}});
  EXPECT_TRUE(Breaks());
}
TEST_F(HostileTest, NoNumbersOutsideAChunkAreBelieved) {
  constexpr uint64_t kChunk = SharedArena::kChunkBytes;
  const Head heads[] = {{.bytes = 8, .offset = kChunk - 4, .chunk = 0, .slot = 0, .turn = 1, .unused = 0},
                        {.bytes = 8, .offset = UINT64_MAX - 3, .chunk = 0, .slot = 0, .turn = 1, .unused = 0},
                        {.bytes = UINT64_MAX - 3, .offset = 8, .chunk = 0, .slot = 0, .turn = 1, .unused = 0},
                        {.bytes = 8, .offset = 2, .chunk = 0, .slot = 0, .turn = 1, .unused = 0},
                        {.bytes = 8, .offset = 0, .chunk = 1, .slot = 0, .turn = 1, .unused = 0},
                        {.bytes = 8, .offset = 0, .chunk = 0, .slot = SharedLink::kSlots, .turn = 1, .unused = 0}};
  for (const Head& head : heads) {
    SharedPair pair;
    SharedMemory chunk = SharedMemory::Make(kChunk, SharedMemory::Others::kRead).value();
    pair.listener();
    ASSERT_TRUE(SendPacket(pair.diallers_socket.get(), Packet::kChunk, "", chunk.fd()));
    pair_.listening = std::move(pair.listening);
    pair_.diallers_memory = pair.diallers_memory;
    Say(1, {head});
    EXPECT_TRUE(Breaks()) << head.bytes << " at " << head.offset << " of " << head.chunk;
  }
}
TEST_F(HostileTest, OneMessageDoesNotCopyTheSameMegabytesAThousandTimes) {
  SharedMemory chunk = SharedMemory::Make(SharedArena::kChunkBytes, SharedMemory::Others::kRead).value();
  ASSERT_TRUE(SendPacket(pair_.diallers_socket.get(), Packet::kChunk, "", chunk.fd()));
  Say(1000, std::vector<Head>(1000, {.bytes = 4 << 20, .offset = 0, .chunk = 0, .slot = 0, .turn = 1, .unused = 0}));
  EXPECT_TRUE(Breaks());
}
// As it does to one that comes late.
TEST_F(HostileTest, AnHonestPeerMayHandOverAllOfItsChunksAtOnce) {
  const SharedMemory chunk = SharedMemory::Make(SharedArena::kChunkBytes, SharedMemory::Others::kRead).value();
  for (size_t i = 0; i < SharedArena::kMostChunks; ++i) {
    ASSERT_TRUE(SendPacket(pair_.diallers_socket.get(), Packet::kChunk, "", chunk.fd()));
  }
  Say(1, {{.bytes = 8, .offset = 0, .chunk = SharedArena::kMostChunks - 1, .slot = 0, .turn = 1, .unused = 0}});
  std::vector<Payload> frames;
  EXPECT_EQ(pair_.listener().Receive(kNow, &frames), Receipt::kMessage);
}
TEST_F(HostileTest, WhatIsNoSealedMemoryEndsTheLink) {
  ASSERT_TRUE(SendPacket(pair_.diallers_socket.get(), Packet::kChunk, "", 0));
  EXPECT_TRUE(Breaks());
}
TEST_F(HostileTest, MoreChunksThanAPeerMayHave) {
  const SharedMemory chunk = SharedMemory::Make(SharedArena::kChunkBytes, SharedMemory::Others::kRead).value();
  for (int i = 0; i < 200 && !pair_.listener().broken(); ++i) {
    SendPacket(pair_.diallers_socket.get(), Packet::kChunk, "", chunk.fd());
    Next(pair_.listener());
  }
  EXPECT_TRUE(pair_.listener().broken());
}
TEST_F(HostileTest, WakesWithoutEndAreReadAFewAtATime) {
  while (SendPacket(pair_.diallers_socket.get(), Packet::kWake)) {
  }
  EXPECT_TRUE(Next(pair_.listener()).empty());
  EXPECT_FALSE(pair_.listener().ended());
}

// Every word of the memory at random while the other side works: no crash, and nothing that asan minds.
TEST_F(HostileTest, NoiseInEveryWord) {
  std::atomic<bool> stop{false};
  SharedPair pair;
  pair.listener();
  std::thread peer([&] {
    std::mt19937_64 random(7);
    auto* const words = reinterpret_cast<std::atomic<uint32_t>*>(pair.diallers_memory->data());
    while (!stop) {
      words[random() % (SharedLink::kControlBytes / 4)].store(static_cast<uint32_t>(random() % 5000),
                                                              std::memory_order_relaxed);
    }
  });
  const std::vector<Payload> frames = FramesOf({"header", kLarge});
  for (int i = 0; i < 20'000; ++i) {
    Next(pair.listener());
    pair.listener().Send(kNow, std::vector<Payload>(frames));
    pair.listener().Drained();
  }
  stop = true;
  peer.join();
}

}  // namespace
}  // namespace downpour
