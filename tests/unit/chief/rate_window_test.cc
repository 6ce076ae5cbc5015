#include "chief/known/rate_window.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

TEST(RateWindowTest, NeedsTwoPoints) {
  RateWindow rate;
  EXPECT_EQ(rate.PerSecond(Time{1s}), 0);
  rate.Add(Time{1s}, 100);
  EXPECT_EQ(rate.PerSecond(Time{2s}), 0);
}

TEST(RateWindowTest, IsThatOfTheLastSeconds) {
  RateWindow rate;
  for (int second = 0; second <= 10; ++second) rate.Add(Time{1s * second}, 100.0 * second);
  for (int second = 11; second <= 20; ++second) rate.Add(Time{1s * second}, 1000 + 300.0 * (second - 10));
  EXPECT_DOUBLE_EQ(rate.PerSecond(Time{20s}), 300);
}

TEST(RateWindowTest, ASlowCountKeepsTwoPoints) {
  RateWindow rate;
  rate.Add(Time{0s}, 0);
  rate.Add(Time{60s}, 600);
  EXPECT_DOUBLE_EQ(rate.PerSecond(Time{60s}), 10);
}

TEST(RateWindowTest, FallsWhenNewsAreOverdue) {
  RateWindow rate;
  rate.Add(Time{0s}, 0);
  rate.Add(Time{1s}, 100);
  EXPECT_DOUBLE_EQ(rate.PerSecond(Time{2s}), 100);
  EXPECT_DOUBLE_EQ(rate.PerSecond(Time{10s}), 10);
}

// A link that was cut for 20 s gives out at one moment what was said meanwhile. The first of those counts is the
// oldest: as the count of that moment it would make the 5 s behind it 5 times as busy.
TEST(RateWindowTest, WhatWasHeldBackAndComesAtOnceIsNoRush) {
  RateWindow rate;
  for (int i = 0; i <= 10; ++i) rate.Add(Time{500ms * i}, 0.5 * i);
  for (int i = 11; i <= 50; ++i) rate.Add(Time{25s + 1ms * (i - 11)}, 0.5 * i);
  for (int i = 51; i <= 80; ++i) {
    rate.Add(Time{500ms * i}, 0.5 * i);
    EXPECT_LE(rate.PerSecond(Time{500ms * i}), 1.02) << i;
  }
  EXPECT_NEAR(rate.PerSecond(Time{40s}), 1, 0.02);
}

}  // namespace
}  // namespace downpour
