#include "cluster/poll_timeout.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

using namespace std::chrono_literals;

TEST(PollTimeoutTest, WhatIsOverWaitsNotAtAllRatherThanForEver) {
  EXPECT_EQ(PollTimeout(-2ms), 0);
  EXPECT_EQ(PollTimeout(std::chrono::nanoseconds::min()), 0);
  EXPECT_EQ(PollTimeout(0ms), 0);
}

TEST(PollTimeoutTest, WhatIsLeftIsRoundedUp) {
  EXPECT_EQ(PollTimeout(1ns), 1);
  EXPECT_EQ(PollTimeout(5ms), 5);
  EXPECT_EQ(PollTimeout(5ms + 1ns), 6);
}

TEST(PollTimeoutTest, MoreThanPollCanTakeIsItsMost) {
  EXPECT_EQ(PollTimeout(std::chrono::nanoseconds::max()), std::numeric_limits<int>::max());
}

}  // namespace
}  // namespace downpour
