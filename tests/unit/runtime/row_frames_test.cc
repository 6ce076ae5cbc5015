#include "runtime/row_frames.h"

#include <gtest/gtest.h>

#include <cstring>

namespace downpour {
namespace {

const std::vector<uint32_t> kWidths = {2, 1, 3};  // an odd number of tables: 4 bytes of 0 behind the counts

RowKeys Some() { return {.counts = {2, 0, 1}, .keys = {3, 9, 9}}; }

Payload Changed(const Payload& frame, size_t at, uint8_t value) {
  Payload copy = Payload::CopyOf(frame.data(), frame.size());
  copy.mutable_data()[at] = std::byte{value};
  return copy;
}

TEST(RowFramesTest, KeysComeBackAsTheyWere) {
  const Payload frame = PackKeys(Some());
  EXPECT_EQ(frame.size(), 16u + 3 * 8);
  const auto keys = UnpackKeys(frame, kWidths);
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(keys->counts, Some().counts);
  EXPECT_EQ(keys->keys, Some().keys);
  EXPECT_EQ(RowBytes(*keys, kWidths), 4u * (2 * 2 + 3));
  EXPECT_EQ(AnswerBytes(frame, kWidths), 4u * (2 * 2 + 3));
}

TEST(RowFramesTest, GradientsComeBackAsTheyWere) {
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6, 7};
  const auto gradients = UnpackGradients(PackGradients(Some(), numbers), kWidths);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_EQ(gradients->rows.keys, Some().keys);
  EXPECT_EQ(gradients->numbers, numbers);
}

TEST(RowFramesTest, WhatIsNoSuchFrameIsRefusedAndNeverAnswered) {
  const Payload keys = PackKeys(Some());
  const std::vector<float> numbers(7);
  const Payload gradients = PackGradients(Some(), numbers);
  for (size_t bytes = 0; bytes < gradients.size(); ++bytes) {
    EXPECT_FALSE(CheckGradients(gradients.Sub(0, bytes), kWidths).ok()) << bytes;
    EXPECT_EQ(CheckKeys(gradients.Sub(0, bytes), kWidths).ok(), bytes == keys.size()) << bytes;
  }
  EXPECT_FALSE(CheckKeys(gradients, kWidths).ok());
  EXPECT_FALSE(CheckKeys(PackKeys({.counts = {0, 0, 0}, .keys = {}}), kWidths).ok()) << "no key at all";
  EXPECT_FALSE(CheckKeys(Changed(keys, 3, 255), kWidths).ok()) << "a count of billions";
  EXPECT_EQ(AnswerBytes(Changed(keys, 3, 255), kWidths), 0u);
  EXPECT_FALSE(CheckKeys(Changed(keys, 16, 9), kWidths).ok()) << "a key twice";
  EXPECT_FALSE(CheckKeys(Changed(keys, 16, 10), kWidths).ok()) << "keys that fall";
  EXPECT_TRUE(CheckKeys(Changed(keys, 32, 1), kWidths).ok()) << "of another table";
}

TEST(RowFramesTest, KeysOfAnotherBucketAreSeen) {
  RowKeys own{.counts = {0, 0, 0}, .keys = {}};
  for (uint64_t key = 0; own.keys.size() < 5; ++key) {
    if (BucketOf(1, key, 4) != 2) continue;
    own.keys.push_back(key);
    ++own.counts[1];
  }
  EXPECT_TRUE(AreInBucket(PackKeys(own), 3, 2, 4));
  EXPECT_FALSE(AreInBucket(PackKeys(own), 3, 1, 4));
  own.keys.back() = UINT64_MAX;
  while (BucketOf(1, own.keys.back(), 4) == 2) --own.keys.back();
  EXPECT_FALSE(AreInBucket(PackKeys(own), 3, 2, 4));
}

TEST(RowFramesTest, AKeyIsInOneOfTwoBucketsWhereThereAreTwiceAsMany) {
  for (uint64_t key = 0; key < 1000; ++key) {
    EXPECT_EQ(BucketOf(1, key, 16) / 2, BucketOf(1, key, 8));
    EXPECT_LT(BucketOf(2, key, 3), 3u);
  }
}

}  // namespace
}  // namespace downpour
