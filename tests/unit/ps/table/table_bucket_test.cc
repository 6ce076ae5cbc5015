#include "ps/table/table_bucket.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "tests/unit/ps/table/table_oracle.h"

namespace downpour {
namespace {

constexpr SgdUpdate kSgd = {1};

TableSpec PlainSpec() { return {.id = 1, .width = 2, .optimizer = OptimizerKind::kSgd, .seed = 3, .initial = 0.5f}; }

std::vector<float> Gather(const TableBucket& bucket, uint64_t key) {
  std::vector<float> values(bucket.spec().width);
  bucket.Gather({&key, 1}, values.data());
  return values;
}

absl::StatusOr<PushEffect> Push(TableBucket& bucket, const std::vector<uint64_t>& keys, float gradient = 1) {
  const std::vector<float> gradients(keys.size() * bucket.spec().width, gradient);
  return bucket.Apply({keys, absl::MakeConstSpan(gradients), kSgd});
}

PushEffect Pushed(TableBucket& bucket, const std::vector<uint64_t>& keys, float gradient = 1) {
  return Push(bucket, keys, gradient).value();
}

std::vector<float> Initial(const TableBucket& bucket, uint64_t key) {
  std::vector<float> values(bucket.spec().width);
  InitialRow(bucket.spec(), key, values.data());
  return values;
}

TEST(TableBucketTest, HoldsWhatTheOracleHoldsAfterEveryPush) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    TablePair pair(DrawSpec(prng), seed);
    for (int push = 0; push < 60; ++push) {
      ASSERT_NO_FATAL_FAILURE(pair.Push());
      ASSERT_NO_FATAL_FAILURE(pair.ExpectSame());
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(TableBucketTest, ManyRowsAreFoundThroughGrowth) {
  TableSpec spec = PlainSpec();
  TableBucket bucket(spec, 5);
  constexpr uint64_t kRows = 100'000;
  std::vector<uint64_t> keys(500);
  for (uint64_t begin = 0; begin < kRows; begin += keys.size()) {
    std::iota(keys.begin(), keys.end(), begin);
    for (uint64_t& key : keys) key = Mix(key);
    ASSERT_EQ(Pushed(bucket, keys).born, keys.size());
  }
  EXPECT_EQ(bucket.rows(), kRows);
  for (uint64_t i = 0; i < kRows; i += 7) {
    const std::vector<float> initial = Initial(bucket, Mix(i));
    ASSERT_EQ(Gather(bucket, Mix(i)), (std::vector<float>{initial[0] - 1, initial[1] - 1}));
  }
  const double each = static_cast<double>(bucket.bytes()) / kRows;
  EXPECT_LT(each, 8 + 16 + 20);  // values, place, index
}

TEST(TableBucketTest, APullStoresNothing) {
  TableSpec spec = PlainSpec();
  spec.admit_after = 2;
  TableBucket bucket(spec, 5);
  const size_t bytes = bucket.bytes();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Gather(bucket, 9), Initial(bucket, 9));
  EXPECT_EQ(bucket.bytes(), bytes);
  EXPECT_EQ(Pushed(bucket, {9}).counted, 1u);
  EXPECT_EQ(Gather(bucket, 9), Initial(bucket, 9));
  EXPECT_EQ(Pushed(bucket, {9}).born, 1u);
  EXPECT_NE(Gather(bucket, 9), Initial(bucket, 9));
}

TEST(TableBucketTest, AKeyTwiceIsRefusedBeforeAnythingChanges) {
  TableBucket bucket(PlainSpec(), 5);
  Pushed(bucket, {4});
  const std::vector<float> before = Gather(bucket, 4);
  for (const std::vector<uint64_t>& keys : {std::vector<uint64_t>{4, 4}, {7, 4, 7}, {9, 8, 4, 6, 5, 9}}) {
    EXPECT_EQ(Push(bucket, keys).status().code(), absl::StatusCode::kInvalidArgument);
  }
  std::vector<uint64_t> many(3000);
  std::iota(many.rbegin(), many.rend(), 100);
  EXPECT_TRUE(Push(bucket, many, 0).ok());
  many[17] = many[2400];
  EXPECT_EQ(Push(bucket, many).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(bucket.clock(), 2u);
  EXPECT_EQ(Gather(bucket, 4), before);
  EXPECT_EQ(bucket.rows(), 3001u);
}

TEST(TableBucketTest, GradientsThatDoNotFitTheKeysAreRefused) {
  TableBucket bucket(PlainSpec(), 5);
  const std::vector<uint64_t> keys = {1, 2};
  const std::vector<float> gradients(3);
  EXPECT_EQ(bucket.Apply({keys, absl::MakeConstSpan(gradients), kSgd}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(bucket.clock(), 0u);
}

TEST(TableBucketTest, APushOfOtherNumbersIsConsumedAndHasNoEffect) {
  TableSpec spec = PlainSpec();
  spec.admit_after = 2;
  spec.evict_after = 3;
  TableBucket bucket(spec, 5);
  const std::vector<uint64_t> keys = {1, 2};
  for (float wrong : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::vector<float> gradients = {1, 1, 1, wrong};
    const uint64_t clock = bucket.clock();
    EXPECT_TRUE(bucket.Apply({keys, absl::MakeConstSpan(gradients), kSgd}).value().skipped);
    EXPECT_EQ(bucket.clock(), clock + 1);
  }
  EXPECT_EQ(Pushed(bucket, {1}).counted, 1u);  // it was not counted before
  EXPECT_EQ(Pushed(bucket, {1}).born, 1u);
}

TEST(TableBucketTest, APushThatMightOverflowHasNoEffectOnAnyRow) {
  for (const bool halves : {false, true}) {
    TableSpec spec = PlainSpec();
    spec.halves = halves;
    TableBucket bucket(spec, 5);
    Pushed(bucket, {1, 2}, -0x1p125f);
    const std::vector<float> before = Gather(bucket, 1);
    EXPECT_TRUE(Pushed(bucket, {3, 1}, -0x1p125f).skipped);
    EXPECT_EQ(Gather(bucket, 1), before);
    EXPECT_EQ(Gather(bucket, 3), Initial(bucket, 3));
    // What other rows hold says nothing of these.
    EXPECT_FALSE(Pushed(bucket, {3, 4}, -0x1p125f).skipped);
    EXPECT_FALSE(Pushed(bucket, {1, 2}, 0x1p124f).skipped);
  }
}

TEST(TableBucketTest, ARowExpiresByPushesToTheBucketAndIsBornAnew) {
  TableSpec spec = PlainSpec();
  spec.evict_after = 2;
  TableBucket bucket(spec, 5);
  Pushed(bucket, {1});
  Pushed(bucket, {2});
  EXPECT_NE(Gather(bucket, 1), Initial(bucket, 1));
  Pushed(bucket, {});
  EXPECT_EQ(Gather(bucket, 1), Initial(bucket, 1));
  EXPECT_NE(Gather(bucket, 2), Initial(bucket, 2));
  EXPECT_EQ(Pushed(bucket, {1}).born, 1u);
  EXPECT_EQ(Gather(bucket, 1)[0], Initial(bucket, 1)[0] - 1);
}

TEST(TableBucketTest, SweepingGivesPlacesBack) {
  TableSpec spec = PlainSpec();
  spec.evict_after = 5;
  TableBucket bucket(spec, 5);
  std::vector<uint64_t> keys(100);
  size_t after_first = 0;
  for (uint64_t round = 0; round < 200; ++round) {
    std::iota(keys.begin(), keys.end(), round * keys.size());
    Pushed(bucket, keys);
    if (round == 20) after_first = bucket.bytes();
  }
  EXPECT_LE(bucket.rows(), 1500u);
  EXPECT_LE(bucket.bytes(), 2 * after_first);
}

TEST(TableBucketTest, RowsThatHaveExpiredLeaveRoomAtOnce) {
  TableSpec spec = PlainSpec();
  spec.evict_after = 2;
  spec.max_rows = 2;
  TableBucket bucket(spec, 5);
  EXPECT_EQ(Pushed(bucket, {1, 2, 3}).unborn, 1u);
  EXPECT_EQ(Pushed(bucket, {3}).unborn, 1u);
  EXPECT_EQ(Pushed(bucket, {2}).unborn, 0u);  // has expired, and is born anew
  EXPECT_EQ(Pushed(bucket, {3}).born, 1u);
  EXPECT_EQ(Pushed(bucket, {4}).unborn, 1u);
  EXPECT_EQ(bucket.unborn(), 3u);
}

TEST(TableBucketTest, ARowIsAsStaleAsItsOwnPushesSay) {
  TableBucket bucket(PlainSpec(), 5);
  Pushed(bucket, {1, 2}, 0);
  const uint64_t pulled_at = bucket.clock();
  Pushed(bucket, {2}, 0);
  const std::vector<uint64_t> keys = {1, 2, 3};
  const std::vector<float> gradients(6, 1);
  ASSERT_TRUE(bucket.Apply({keys, absl::MakeConstSpan(gradients), kSgd, SgdUpdate{0.25f}, pulled_at}).ok());
  EXPECT_EQ(Gather(bucket, 1)[0], Initial(bucket, 1)[0] - 1);
  EXPECT_EQ(Gather(bucket, 2)[0], Initial(bucket, 2)[0] - 0.25f);
  EXPECT_EQ(Gather(bucket, 3)[0], Initial(bucket, 3)[0] - 1);
}

TEST(TableBucketTest, WithoutEvictionTheSameRowsAreBornInEveryOrder) {
  TableSpec spec = PlainSpec();
  spec.admit_after = 3;
  std::vector<std::vector<uint64_t>> pushes = {{1, 2}, {2, 3}, {1, 2}, {4, 2}, {1, 3}, {3, 4}};
  for (int order = 0; order < 20; ++order) {
    TableBucket bucket(spec, 5);
    for (const std::vector<uint64_t>& keys : pushes) Pushed(bucket, keys);
    EXPECT_EQ(bucket.rows(), 3u);
    EXPECT_EQ(Gather(bucket, 2)[0], Initial(bucket, 2)[0] - 1 - 1);
    std::next_permutation(pushes.begin(), pushes.end());
  }
}

}  // namespace
}  // namespace downpour
