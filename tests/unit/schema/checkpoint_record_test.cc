#include <gtest/gtest.h>

#include <cstring>

#include "schema/checkpoint_format.h"
#include "schema/codec.h"

namespace downpour {
namespace {

Payload Floats(std::vector<float> values) { return Payload::CopyOf(values.data(), values.size() * sizeof(float)); }

SliceState SmallState() {
  SliceState state;
  state.slice = SliceId{7};
  state.epoch = {3, 2};
  state.version = 41;
  state.finished.InsertRange(0, 5);
  state.finished.Insert(9);
  state.counters = {{LeaseId{5}, 3}, {LeaseId{10}, 1}};
  state.values = Floats({1, -2, 0.5, 1e30F});
  state.slots = {Floats({0, 1, 2, 3}), Floats({4, 5, 6, 7})};
  return state;
}

std::string BytesOf(absl::Span<const Payload> pieces) {
  std::string bytes;
  for (const Payload& piece : pieces) bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return bytes;
}

absl::StatusOr<SliceState> DecodeBytes(const std::string& bytes) {
  return DecodeRecord({Payload::CopyOf(bytes.data(), bytes.size())});
}

void ExpectSame(const SliceState& a, const SliceState& b) {
  EXPECT_EQ(a.slice, b.slice);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.skipped, b.skipped);
  EXPECT_EQ(a.usual_staleness, b.usual_staleness);
  EXPECT_EQ(a.finished, b.finished);
  EXPECT_EQ(a.counters, b.counters);
  EXPECT_EQ(BytesOf({a.values}), BytesOf({b.values}));
  ASSERT_EQ(a.slots.size(), b.slots.size());
  for (size_t i = 0; i < a.slots.size(); ++i) EXPECT_EQ(BytesOf({a.slots[i]}), BytesOf({b.slots[i]}));
}

// A record whose header was changed by somebody who knows checksums.
std::string Forged(std::string bytes, size_t at, uint32_t value) {
  uint32_t header_bytes;
  std::memcpy(&header_bytes, bytes.data() + 8, 4);
  std::memcpy(bytes.data() + at, &value, 4);
  const uint32_t checksum = Crc32c({reinterpret_cast<const std::byte*>(bytes.data()), header_bytes - 4});
  std::memcpy(bytes.data() + header_bytes - 4, &checksum, 4);
  return bytes;
}

TEST(Crc32cTest, IsTheStandardOneAndContinues) {
  const auto digits = Payload::CopyOf("123456789", 9);
  EXPECT_EQ(Crc32c(digits.bytes()), 0xe3069283u);
  EXPECT_EQ(Crc32c(digits.Sub(4, 5).bytes(), Crc32c(digits.Sub(0, 4).bytes())), 0xe3069283u);
  EXPECT_EQ(Crc32c({}), 0u);
  EXPECT_EQ(RecordChecksum({digits.Sub(0, 4), digits.Sub(4, 5)}), 0xe3069283u);
  EXPECT_EQ(RecordBytes({digits.Sub(0, 4), digits.Sub(4, 5)}), 9u);
}

TEST(SliceRecordTest, ComesBackHoweverItIsCut) {
  const SliceState state = SmallState();
  const std::string bytes = BytesOf(EncodeRecord(state));
  for (size_t a = 0; a <= bytes.size(); ++a) {
    for (size_t b = a; b <= bytes.size(); b += 13) {
      const Payload whole = Payload::CopyOf(bytes.data(), bytes.size());
      const auto read = DecodeRecord({whole.Sub(0, a), whole.Sub(a, b - a), whole.Sub(b, bytes.size() - b)});
      ASSERT_TRUE(read.ok()) << read.status() << a << " " << b;
      ExpectSame(*read, state);
    }
  }
}

// Whoever knows nothing of it reads records of slices that skipped nothing, as all do that were written before.
TEST(SliceRecordTest, HowManyPushesWereSkippedIsThereIfAnyWas) {
  SliceState state = SmallState();
  const size_t without = EncodeRecord(state)[0].size();
  EXPECT_EQ(without, 56u + 4 * 2 + 16 * 2 + 12 * 2);
  state.skipped = uint64_t{1} << 40 | 3;
  const std::string bytes = BytesOf(EncodeRecord(state));
  EXPECT_EQ(EncodeRecord(state)[0].size(), without + 8);
  const auto read = DecodeBytes(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, state);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_FALSE(DecodeBytes(damaged).ok()) << at;
  }
  const std::string none = Forged(Forged(bytes, without - 4, 0), without, 0);
  EXPECT_EQ(DecodeBytes(none).status().message(), "slice 7: in its record no skipped push is counted");
}

TEST(SliceRecordTest, HowStalePushesUsuallyAreIsThereIfTheyAre) {
  for (const uint64_t skipped : {0, 3}) {
    SliceState state = SmallState();
    const size_t without = EncodeRecord(state)[0].size();
    state.skipped = skipped;
    state.usual_staleness = kMostUsualStaleness;
    const std::string bytes = BytesOf(EncodeRecord(state));
    EXPECT_EQ(EncodeRecord(state)[0].size(), without + 16);
    const auto read = DecodeBytes(bytes);
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectSame(*read, state);
    const std::string none = Forged(Forged(bytes, without + 4, 0), without + 8, 0);
    EXPECT_EQ(DecodeBytes(none).status().message(), "slice 7: in its record pushes are usually 0/65536 updates stale");
    const std::string more = Forged(bytes, without + 4, 1);
    EXPECT_EQ(DecodeBytes(more).status().message(),
              "slice 7: in its record pushes are usually 281474976710657/65536 updates stale");
  }
}

TEST(SliceRecordTest, SharesItsValuesAndOwnsWhatItReads) {
  SliceState state = SmallState();
  const std::vector<Payload> blocks = EncodeRecord(state);
  ASSERT_EQ(blocks.size(), 4u);
  EXPECT_EQ(blocks[1].data(), state.values.data());
  EXPECT_EQ(blocks[3].data(), state.slots[1].data());
  auto read = DecodeRecord(blocks);
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->values.unique());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(read->values.data()) % Payload::kAlignment, 0u);
}

TEST(SliceRecordTest, ANewbornSliceAndTheLargestOneFit) {
  SliceState newborn;
  newborn.values = Floats({1});
  auto read = DecodeRecord(EncodeRecord(newborn));
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, newborn);

  SliceState largest = SmallState();
  largest.values = Payload::Zeros(kMaxFrameBytes);
  largest.slots = {largest.values, largest.values};
  read = DecodeRecord(EncodeRecord(largest));
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(*read, largest);
}

TEST(SliceRecordTest, EveryFlippedBitIsNoticed) {
  const std::string bytes = BytesOf(EncodeRecord(SmallState()));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(DecodeBytes(damaged).status().code(), absl::StatusCode::kDataLoss) << "bit " << bit;
  }
}

TEST(SliceRecordTest, EveryCutAndEveryTailIsNoticed) {
  const std::string bytes = BytesOf(EncodeRecord(SmallState()));
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(DecodeBytes(bytes.substr(0, length)).status().code(), absl::StatusCode::kDataLoss) << length;
  }
  EXPECT_EQ(DecodeBytes(bytes + '\0').status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeBytes(bytes + bytes).status().code(), absl::StatusCode::kDataLoss);
}

TEST(SliceRecordTest, DamageIsNamedBySliceAndByte) {
  const std::string bytes = BytesOf(EncodeRecord(SmallState()));
  std::string damaged = bytes;
  damaged[bytes.size() - 1] ^= 1;
  EXPECT_EQ(DecodeBytes(damaged).status().message(),
            "a damaged slice record: slice 7: the checksum of bytes 152 to 168 differs");
}

TEST(SliceRecordTest, WhatNoWriterMakesIsRefusedThoughItsChecksumIsRight) {
  const std::string bytes = BytesOf(EncodeRecord(SmallState()));
  const auto why = [&](size_t at, uint32_t value) {
    const absl::Status status = DecodeBytes(Forged(bytes, at, value)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const std::string values = "slice 7: its record's header names values of ";
  EXPECT_EQ(why(32, 0), values + "0 bytes");
  EXPECT_EQ(why(32, 6), values + "6 bytes");
  EXPECT_EQ(why(32, kMaxFrameBytes + 4), values + "1048580 bytes");
  const std::string length = "slice 7: its record's header has another length than its counts make";
  EXPECT_EQ(why(36, 0x40000000), length);  // slots, whose checksums would overflow 32 bits
  EXPECT_EQ(why(40, 3), length);           // intervals
  EXPECT_EQ(why(44, 0xffffffff), length);  // counters
  const std::string intervals = "slice 7: in its record the intervals of finished leases are not ascending";
  EXPECT_EQ(why(60, 5), intervals);  // [5, 5)
  EXPECT_EQ(why(68, 9), intervals);  // [0, 9), which touches [9, 10)
  EXPECT_EQ(why(104, 5), "slice 7: in its record the open leases are not ascending");
  EXPECT_EQ(why(92, 4), "slice 7: in its record lease 4 is both open and finished");
  EXPECT_TRUE(DecodeBytes(Forged(bytes, 92, 6)).ok());
}

TEST(SliceRecordTest, AHeaderIsNeitherShorterThanItsHeadNorLongerThanTheRecord) {
  const std::string bytes = BytesOf(EncodeRecord(SmallState()));
  for (const uint32_t header_bytes : {0u, 10u, 55u, 169u, 0x7fffffffu, 0xffffffffu}) {
    std::string damaged = bytes;
    std::memcpy(damaged.data() + 8, &header_bytes, 4);
    EXPECT_EQ(DecodeBytes(damaged).status().message(),
              "a damaged slice record: byte 8 names a header of " + std::to_string(header_bytes) + " bytes, of 168");
  }
}

TEST(SliceRecordTest, NothingIsAllocatedForALengthThatIsNotThere) {
  EXPECT_EQ(DecodeRecord({Payload::Zeros(kMaxRecordBytes + 1)}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(DecodeRecord({}).ok());
}

}  // namespace
}  // namespace downpour
