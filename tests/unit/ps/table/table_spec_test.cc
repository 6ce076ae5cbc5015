#include "ps/table/table_spec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace downpour {
namespace {

std::vector<float> InitialOf(TableSpec spec, uint64_t key) {
  std::vector<float> values(spec.width);
  InitialRow(spec, key, values.data());
  return values;
}

TEST(TableSpecTest, InitialValuesFollowFromSeedTableKeyAndColumn) {
  const TableSpec spec = {.id = 3, .width = 8, .seed = 5, .initial = 0.5f};
  const std::vector<float> values = InitialOf(spec, 17);
  EXPECT_EQ(values, InitialOf(spec, 17));
  EXPECT_EQ(std::set<float>(values.begin(), values.end()).size(), 8u);
  for (float value : values) EXPECT_LE(std::fabs(value), 0.5f);
  TableSpec other = spec;
  other.id = 4;
  EXPECT_NE(values, InitialOf(other, 17));
  other = spec;
  other.seed = 6;
  EXPECT_NE(values, InitialOf(other, 17));
  EXPECT_NE(values, InitialOf(spec, 18));
  EXPECT_EQ(InitialOf({.width = 3, .seed = 5}, 17), (std::vector<float>{0, 0, 0}));
}

TEST(TableSpecTest, InitialValuesAreRoundedAsTheyAreKept) {
  const TableSpec spec = {.width = 8, .halves = true, .seed = 5, .initial = 0.5f};
  for (float value : InitialOf(spec, 1)) EXPECT_EQ(std::ldexp(value, 30), std::nearbyint(std::ldexp(value, 30)));
  TableSpec exact = spec;
  exact.halves = false;
  EXPECT_NE(InitialOf(spec, 1), InitialOf(exact, 1));
}

TEST(TableSpecTest, BucketsAreEvenAndTwiceAsManyAreHalves) {
  std::vector<int> keys_of(8);
  for (uint64_t key = 0; key < 8000; ++key) {
    const uint32_t bucket = BucketOf(1, key, 8);
    ++keys_of[bucket];
    EXPECT_EQ(BucketOf(1, key, 16) / 2, bucket);
  }
  for (int keys : keys_of) EXPECT_NEAR(keys, 1000, 150);
}

TEST(TableSpecTest, WhatCannotBeIsNamed) {
  const TableSpec good = {.width = 8};
  EXPECT_TRUE(CheckTable(good).ok());
  const auto wrong = [&](auto change) {
    TableSpec spec = good;
    change(spec);
    return CheckTable(spec).code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(wrong([](TableSpec& spec) { spec.width = 0; }));
  EXPECT_TRUE(wrong([](TableSpec& spec) { spec.width = 4097; }));
  EXPECT_TRUE(wrong([](TableSpec& spec) { spec.admit_after = 0; }));
  EXPECT_TRUE(wrong([](TableSpec& spec) { spec.admission_counts = 3; }));
  EXPECT_TRUE(wrong([](TableSpec& spec) { spec.evict_after = kMostEvictAfter + 1; }));
  EXPECT_TRUE(wrong([](TableSpec& spec) { spec.buckets = 0; }));
  EXPECT_TRUE(wrong([](TableSpec& spec) { spec.bucket = 1; }));
  EXPECT_TRUE(wrong([](TableSpec& spec) { spec.initial = -1; }));
  EXPECT_TRUE(wrong([](TableSpec& spec) { spec.initial = INFINITY; }));
  EXPECT_TRUE(wrong([](TableSpec& spec) { spec.optimizer = OptimizerKind::kMomentum; }));
  EXPECT_TRUE(wrong([](TableSpec& spec) {
    spec.optimizer = OptimizerKind::kAdam;
    spec.row_wise = true;
  }));
}

}  // namespace
}  // namespace downpour
