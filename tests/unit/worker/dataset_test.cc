#include "worker/data/dataset.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace downpour {
namespace {

LabelSpread Of(std::vector<uint64_t> counts) { return SpreadOf(counts); }

TEST(SpreadOfLabelsTest, IsTheirEntropyAndTheLargestShare) {
  EXPECT_DOUBLE_EQ(Of({50, 50, 50, 50}).entropy, std::log(4));
  EXPECT_DOUBLE_EQ(Of({50, 50, 50, 50}).largest, 0.25);
  EXPECT_DOUBLE_EQ(Of({100, 0, 300}).entropy, -0.25 * std::log(0.25) - 0.75 * std::log(0.75));
  EXPECT_DOUBLE_EQ(Of({100, 0, 300}).largest, 0.75);
}

TEST(SpreadOfLabelsTest, IsNotKnownOfFewExamples) {
  EXPECT_FALSE(Of({}).known());
  EXPECT_FALSE(Of({0, 1000}).known()) << "one class alone";
  EXPECT_FALSE(Of({29, 1000000}).known());
  EXPECT_TRUE(Of({30, 1000000}).known());
  EXPECT_FALSE(Of({49, 0, 50}).known());
  EXPECT_TRUE(Of({50, 0, 50}).known());
}

TEST(SpreadOfLabelsTest, CountsOfAnySizeHaveOne) {
  EXPECT_DOUBLE_EQ(Of(std::vector<uint64_t>(3, std::numeric_limits<uint64_t>::max())).entropy, std::log(3));
}

}  // namespace
}  // namespace downpour
