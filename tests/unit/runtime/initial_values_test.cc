#include "runtime/initial_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace downpour {
namespace {

VariableSpec Kernel(const char* name, Initializer initializer, int64_t fan_in, int64_t fan_out) {
  return {name, {fan_in, fan_out}, initializer, fan_in, fan_out};
}

SliceGrid OneSlice(const VariableSpec& variable) {
  return {{variable}, {{SliceId{0}, 0, 0, variable.fan_in * variable.fan_out}}};
}

std::vector<float> Values(uint64_t seed, const SliceGrid& grid, uint32_t slice) {
  std::vector<float> values(static_cast<size_t>(grid.slices[slice].elements), NAN);
  InitialValues(seed, grid, SliceId{slice}, values.data());
  return values;
}

TEST(InitialValuesTest, DoNotDependOnTheCut) {
  const VariableSpec kernel = Kernel("dense_0/kernel", Initializer::kHeUniform, 20, 5);
  const std::vector<float> whole = Values(7, OneSlice(kernel), 0);
  const VariableSpec other = Kernel("dense_1/kernel", Initializer::kGlorotUniform, 3, 3);
  const SliceGrid cut{{other, kernel},
                      {{SliceId{0}, 0, 0, 9}, {SliceId{1}, 1, 0, 33}, {SliceId{2}, 1, 33, 1}, {SliceId{3}, 1, 34, 66}}};
  std::vector<float> joined;
  for (uint32_t slice : {1, 2, 3}) {
    const std::vector<float> part = Values(7, cut, slice);
    joined.insert(joined.end(), part.begin(), part.end());
  }
  EXPECT_EQ(joined, whole);
}

TEST(InitialValuesTest, FillTheRangeEvenly) {
  const struct {
    Initializer initializer;
    double half_width;
  } cases[] = {{Initializer::kHeUniform, std::sqrt(6.0 / 300)}, {Initializer::kGlorotUniform, std::sqrt(6.0 / 500)}};
  for (const auto& c : cases) {
    const std::vector<float> values = Values(1, OneSlice(Kernel("k", c.initializer, 300, 200)), 0);
    const double n = static_cast<double>(values.size());
    double sum = 0, squares = 0, largest = 0;
    for (float v : values) {
      sum += v;
      squares += double{v} * v;
      largest = std::max(largest, std::fabs(double{v}));
    }
    const double deviation = c.half_width / std::sqrt(3.0);
    EXPECT_LT(std::fabs(sum / n), 4 * deviation / std::sqrt(n));
    EXPECT_NEAR(std::sqrt(squares / n), deviation, 0.01 * deviation);
    EXPECT_LE(largest, c.half_width);
    EXPECT_GT(largest, 0.999 * c.half_width);
  }
}

TEST(InitialValuesTest, SeedAndNameGiveOtherValues) {
  const SliceGrid grid = OneSlice(Kernel("a/kernel", Initializer::kHeUniform, 4, 4));
  EXPECT_EQ(Values(1, grid, 0), Values(1, grid, 0));
  EXPECT_NE(Values(1, grid, 0), Values(2, grid, 0));
  EXPECT_NE(Values(1, grid, 0), Values(1, OneSlice(Kernel("b/kernel", Initializer::kHeUniform, 4, 4)), 0));
}

TEST(InitialValuesTest, BiasesStartAtZero) {
  const SliceGrid grid{{{"a/bias", {10}, Initializer::kZeros, 0, 0}}, {{SliceId{0}, 0, 0, 10}}};
  EXPECT_EQ(Values(1, grid, 0), std::vector<float>(10, 0.0f));
}

// A slice that is restarted from its initial values must get the ones it had: these may never change.
TEST(InitialValuesTest, BitsAreFrozen) {
  const SliceGrid grid = OneSlice(Kernel("dense_0/kernel", Initializer::kGlorotUniform, 2, 1));
  const std::vector<float> values = Values(1, grid, 0);
  EXPECT_EQ(values, (std::vector<float>{-0x1.486afp-1f, 0x1.d180a4p-2f}));
}

}  // namespace
}  // namespace downpour
