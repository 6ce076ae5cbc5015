#include "data/dataset.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace downpour {
namespace {

Guess Of(std::vector<uint64_t> counts, Loss loss = Loss::kSoftmaxCrossEntropy, int64_t outputs = 1) {
  return GuessOf(counts, loss, outputs);
}

TEST(GuessTest, OfClassesIsTheirEntropyAndTheLargestShare) {
  EXPECT_DOUBLE_EQ(Of({50, 50, 50, 50}).loss, std::log(4));
  EXPECT_DOUBLE_EQ(Of({50, 50, 50, 50}).accuracy, 0.25);
  EXPECT_DOUBLE_EQ(Of({100, 0, 300}).loss, -0.25 * std::log(0.25) - 0.75 * std::log(0.75));
  EXPECT_DOUBLE_EQ(Of({100, 0, 300}).accuracy, 0.75);
}

TEST(GuessTest, IsNotKnownOfFewExamples) {
  EXPECT_FALSE(Of({}).known());
  EXPECT_FALSE(Of({0, 1000}).known()) << "one class alone";
  EXPECT_FALSE(Of({29, 1000000}).known());
  EXPECT_TRUE(Of({30, 1000000}).known());
  EXPECT_FALSE(Of({49, 0, 50}).known());
  EXPECT_TRUE(Of({50, 0, 50}).known());
}

TEST(GuessTest, CountsOfAnySizeGiveOne) {
  EXPECT_DOUBLE_EQ(Of(std::vector<uint64_t>(3, std::numeric_limits<uint64_t>::max())).loss, std::log(3));
}

TEST(GuessTest, OfNumbersIsTheirVariance) {
  EXPECT_DOUBLE_EQ(Of({30, 0, 30}, Loss::kMeanSquaredError).loss, 1);
  EXPECT_DOUBLE_EQ(Of({30, 0, 0, 90}, Loss::kMeanSquaredError).loss, 27.0 / 16);
  EXPECT_EQ(Of({30, 0, 30}, Loss::kMeanSquaredError).accuracy, 0);
  EXPECT_FALSE(Of({29, 0, 30}, Loss::kMeanSquaredError).known());
  EXPECT_FALSE(Of({1000, 1000}, Loss::kOwn).known());
}

TEST(GuessTest, OfSeveralOutputsIsTheMeanOfTheirVariances) {
  EXPECT_DOUBLE_EQ(Of({50, 50, 50, 50}, Loss::kMeanSquaredError, 4).loss, 0.1875);
  EXPECT_DOUBLE_EQ(Of({50, 150}, Loss::kMeanSquaredError, 4).loss, 0.09375);
  EXPECT_DOUBLE_EQ(Of({50, 150}, Loss::kMeanSquaredError, 4).accuracy, 0.75);
  EXPECT_FALSE(Of({49, 49}, Loss::kMeanSquaredError, 2).known());
}

}  // namespace
}  // namespace downpour
