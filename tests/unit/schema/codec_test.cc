#include "schema/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <variant>

#include "tests/schema/random_message.h"

namespace downpour {
namespace {

constexpr size_t kKinds = std::variant_size_v<MessageKinds>;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

Payload Part(const Payload& payload, size_t bytes) { return Payload::CopyOf(payload.data(), bytes); }

TEST(CodecTest, EveryFieldOfEveryMessageArrives) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    for (size_t kind = 0; kind < kKinds; ++kind) {
      const Message sent = RandomMessage(kind, random);
      const absl::StatusOr<Message> received = Decode(Encode(sent));
      ASSERT_TRUE(received.ok()) << received.status();
      ASSERT_EQ(FieldLines(*received), FieldLines(sent));
    }
  }
}

TEST(CodecTest, TheRunInWhichAMessageIsSaidTravelsBesideIt) {
  Random random(3);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const Message sent = RandomMessage(kind, random);
    for (const uint64_t said_in : {uint64_t{0}, uint64_t{5}, UINT64_MAX}) {
      uint64_t run = 1;
      ASSERT_TRUE(Decode(Encode(sent, said_in), &run).ok());
      EXPECT_EQ(run, said_in) << NameOf(sent);
    }
  }
}

TEST(CodecTest, EachKindHasItsName) {
  EXPECT_STREQ(NameOf(Join{}), "Join");
  EXPECT_STREQ(NameOf(PullReply{}), "PullReply");
  EXPECT_STREQ(NameOf(StatusReply{}), "StatusReply");
}

// ZeroMQ's frames begin at any address.
TEST(CodecTest, FramesMayLieAtAnyAddress) {
  Random random(2);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const Message sent = RandomMessage(kind, random);
    for (size_t shift = 1; shift < 8; ++shift) {
      std::vector<Payload> frames;
      for (const Payload& frame : Encode(sent)) {
        Payload shifted = Payload::Allocate(shift + frame.size());
        std::memcpy(shifted.mutable_data() + shift, frame.data(), frame.size());
        frames.push_back(shifted.Sub(shift, frame.size()));
      }
      const absl::StatusOr<Message> received = Decode(frames);
      ASSERT_TRUE(received.ok()) << received.status();
      ASSERT_EQ(FieldLines(*received), FieldLines(sent));
    }
  }
}

TEST(CodecTest, PayloadsAreNeitherCopiedOnTheirWayOutNorIn) {
  Push push;
  push.slices.resize(3);
  push.slices[0].gradient = Payload::Zeros(8);
  push.slices[2].gradient = Payload::Zeros(4);
  const std::vector<Payload> frames = Encode(push);
  ASSERT_EQ(frames.size(), 3u);  // the empty push has no frame
  EXPECT_EQ(frames[2].data(), push.slices[2].gradient.data());
  const absl::StatusOr<Message> received = Decode(frames);
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(std::get<Push>(*received).slices[0].gradient.data(), push.slices[0].gradient.data());
  EXPECT_TRUE(std::get<Push>(*received).slices[1].gradient.empty());
}

TEST(CodecTest, TheLargestPlacementFits) {
  Placement placement;
  placement.servers.resize(1000);
  for (auto& server : placement.servers) server = {Incarnation{1}, "ps-1000", std::string(100, 'h')};
  placement.slices.resize(100000);
  SliceRecord record;
  record.blocks.assign(kMaxRecordBytes / kMaxFrameBytes, Payload::Zeros(kMaxFrameBytes));
  const StatusReply status{std::string(kMaxStatusBytes, 's')};
  for (const Message& message : {Message(placement), Message(status), Message(record)}) {
    const absl::StatusOr<Message> received = Decode(Encode(message));
    EXPECT_TRUE(received.ok()) << received.status();
  }
}

TEST(CodecTest, StringsAreCleanedBeforeTheySendAndCutToTheirLimit) {
  const Leave leave{Incarnation{1}, std::string(kMaxStringBytes - 1, 'x') + "\xe2\x82\xac"};
  absl::StatusOr<Message> received = Decode(Encode(leave));
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(std::get<Leave>(*received).why, std::string(kMaxStringBytes - 1, 'x'));
  Heartbeat heartbeat;
  heartbeat.stats.waiting_for = "\r\xff";
  heartbeat.log_lines = {"cannot read \xff\x1b[2J", ""};
  received = Decode(Encode(heartbeat));
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(std::get<Heartbeat>(*received).log_lines, (std::vector<std::string>{"cannot read ??[2J", ""}));
  EXPECT_EQ(std::get<Heartbeat>(*received).stats.waiting_for, "??");
}

TEST(CodecTest, FramesThatDoNotFitTheHeaderAreRefused) {
  Push push;
  push.slices.resize(2);
  push.slices[0].gradient = Payload::Zeros(8);
  push.slices[1].gradient = Payload::Zeros(12);
  const std::vector<Payload> frames = Encode(push);
  const auto why = [](const std::vector<Payload>& f) { return std::string(Decode(f).status().message()); };
  EXPECT_EQ(why({frames[0], frames[1]}), "Push: the header names more payloads than the 1 that came");
  EXPECT_EQ(why({frames[0], frames[1], frames[2], frames[2]}), "Push: the header names 2 payloads, but 3 came");
  EXPECT_EQ(why({frames[0], frames[2], frames[1]}), "Push: payload 1 has 12 bytes, not the 8 named");
  EXPECT_EQ(why({frames[0], frames[1], Payload()}), "Push: payload 2 has 0 bytes, not the 12 named");
  EXPECT_EQ(why({frames[0]}), "Push: the header names more payloads than the 0 that came");
  EXPECT_EQ(why({}), "no message: it has no header");
  EXPECT_EQ(why({Payload(), frames[1]}), "no message: it has no header");
  EXPECT_EQ(why({frames[1], frames[2]}), "no message: the header is damaged");
}

TEST(CodecTest, WhatIsTooLargeIsRefused) {
  const auto code = [](const std::vector<Payload>& frames) { return Decode(frames).status().code(); };
  EXPECT_EQ(Decode({Payload::Zeros(kMaxHeaderBytes + 1)}).status().message(),
            "no message: a header of 4194305 bytes, of at most 4194304");
  EXPECT_EQ(Decode(std::vector<Payload>(kMaxFrames + 1, Payload::Zeros(4))).status().message(),
            "no message: 1025 frames, of at most 1024");

  Push push;
  push.slices.resize(1);
  push.slices[0].gradient = Payload::Zeros(kMaxMessagePayload);
  EXPECT_EQ(code(Encode(push)), absl::StatusCode::kOk);
  push.slices[0].gradient = Payload::Zeros(kMaxFrameBytes + 4);
  EXPECT_EQ(code(Encode(push)), kInvalid);
  push.slices.resize(2);
  push.slices[0].gradient = Payload::Zeros(kMaxMessagePayload / 2);
  push.slices[1].gradient = Payload::Zeros(kMaxMessagePayload / 2 + 4);
  EXPECT_EQ(code(Encode(push)), kInvalid);
  PullReply reply;
  reply.slices.resize(2);
  for (auto& item : reply.slices) item.values = push.slices[1].gradient;
  EXPECT_EQ(code(Encode(reply)), kInvalid);

  RestoreSlice restore;
  restore.blocks.assign(5, Payload::Zeros(kMaxFrameBytes));
  EXPECT_EQ(code(Encode(restore)), kInvalid);
  restore.blocks = {Payload::Zeros(kMaxFrameBytes + 1)};
  EXPECT_EQ(code(Encode(restore)), kInvalid);
  Probe probe;
  probe.slices.resize(kMaxItems);
  EXPECT_EQ(code(Encode(probe)), absl::StatusCode::kOk);
  probe.slices.resize(kMaxItems + 1);
  EXPECT_EQ(code(Encode(probe)), kInvalid);
}

TEST(CodecTest, AGradientIsMadeOfNumbers) {
  Push push;
  push.slices.resize(1);
  push.slices[0].gradient = Payload::Zeros(5);
  EXPECT_EQ(Decode(Encode(push)).status().message(), "Push: payload 1 is cut within a number");
}

// A header without its tail, if it still reads, says what the whole one said.
TEST(CodecTest, NoHeaderCutShortIsMistakenForAnother) {
  Random random(3);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const Message sent = RandomMessage(kind, random);
    std::vector<Payload> frames = Encode(sent);
    const Payload header = frames[0];
    for (size_t length = 0; length < header.size(); ++length) {
      frames[0] = Part(header, length);
      const absl::StatusOr<Message> received = Decode(frames);
      if (received.ok()) {
        EXPECT_EQ(FieldLines(*received), FieldLines(sent)) << length;
      }
    }
  }
}

// Damages up to four places: a byte, or a word of one of the values that break decoders.
void Mutate(Payload* header, Random& random) {
  static constexpr uint32_t kWords[] = {0, 1, 4, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff};
  std::byte* bytes = header->mutable_data();
  for (uint64_t places = 1 + random() % 4; places > 0; --places) {
    const size_t at = random() % header->size();
    if (random() % 2 == 0) {
      bytes[at] ^= static_cast<std::byte>(1 + random() % 255);
    } else {
      const size_t word = std::min(at / 4 * 4, (header->size() - 1) / 4 * 4);
      std::memcpy(bytes + word, &kWords[random() % std::size(kWords)], std::min<size_t>(4, header->size() - word));
    }
  }
}

TEST(CodecTest, AnyDamageToAHeaderIsRefusedOrStillAMessage) {
  Random random(4);
  int refused = 0;
  int accepted = 0;
  for (int round = 0; round < 200; ++round) {
    for (size_t kind = 0; kind < kKinds; ++kind) {
      std::vector<Payload> frames = Encode(RandomMessage(kind, random));
      const Payload header = frames[0];
      for (int i = 0; i < 40; ++i) {
        frames[0] = Part(header, header.size());
        Mutate(&frames[0], random);
        const absl::StatusOr<Message> received = Decode(frames);
        ++(received.ok() ? accepted : refused);
        if (i % 8 != 0 || !received.ok()) continue;
        // What was accepted keeps to the rules: it can be passed on.
        const absl::StatusOr<Message> again = Decode(Encode(*received));
        ASSERT_TRUE(again.ok()) << again.status();
        ASSERT_EQ(FieldLines(*again), FieldLines(*received));
      }
    }
  }
  EXPECT_GT(refused, 50000);   // else the damage is no damage
  EXPECT_GT(accepted, 40000);  // else it never comes past the Verifier
}

}  // namespace
}  // namespace downpour
