#include "worker/input_share.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

using std::chrono_literals::operator""s;

TEST(InputShare, MoreThanHalfOfTheTimeBoundsTheRate) {
  InputShare share;
  Time now = Time() + 1000s;
  const auto step = [&](Duration takes, Duration reads) {
    share.Add(reads, now += takes);
    return share.bounds_rate();
  };
  EXPECT_FALSE(step(60s, 60s)) << "nobody knows when it began";
  EXPECT_FALSE(step(5s, 5s)) << "of too short a time";
  EXPECT_TRUE(step(5s, 1s)) << "6 of 10 s";
  EXPECT_TRUE(step(9s, 0s)) << "until as long a time has told otherwise";
  EXPECT_FALSE(step(1s, 0s));
  EXPECT_FALSE(step(60s, 30s)) << "half is not more than half";
  EXPECT_TRUE(step(60s, 31s));
}

}  // namespace
}  // namespace downpour
