#include "chief/rate_window.h"

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

}  // namespace
}  // namespace downpour
