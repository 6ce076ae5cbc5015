#include "runtime/prng.h"

#include <gtest/gtest.h>

#include <array>

namespace downpour {
namespace {

// Reference values of splitmix64 from state 0: the stream must never change, since plans and checkpoints depend on it.
TEST(PrngTest, MixIsSplitmix64) {
  EXPECT_EQ(Mix(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(Mix(0x9e3779b97f4a7c15u), 0x6e789e6aa1b965f4u);
}

TEST(PrngTest, BelowIsUniformAndInRange) {
  Prng prng(5);
  std::array<int, 6> counts{};
  for (int i = 0; i < 60000; ++i) ++counts[prng.Below(6)];
  for (int count : counts) EXPECT_NEAR(count, 10000, 500);  // five standard deviations
}

TEST(PrngTest, OrderMattersInMixAll) { EXPECT_NE(MixAll(1, 2), MixAll(2, 1)); }

}  // namespace
}  // namespace downpour
