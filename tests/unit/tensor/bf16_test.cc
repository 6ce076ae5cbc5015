// Numbers rounded to bfloat16, on every CPU target.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tensor/apply_kernels.h"
#include "tests/unit/tensor/cpu_targets.h"

namespace downpour {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Bf16Test : public CpuTargetTest {
 protected:
  static std::vector<Bf16> Rounded(const std::vector<float>& numbers) {
    std::vector<Bf16> rounded(numbers.size());
    RoundToBf16(numbers, rounded.data());
    return rounded;
  }
  static std::vector<float> Widened(const std::vector<Bf16>& halves) {
    std::vector<float> numbers(halves.size());
    WidenBf16(halves, numbers.data());
    return numbers;
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, Bf16Test, testing::ValuesIn(CpuTargets()), NameOfCpuTarget);

std::vector<float> Numbers(size_t n, uint32_t seed) {
  std::vector<float> numbers(n);
  for (float& x : numbers) {
    seed = seed * 1664525u + 1013904223u;
    x = (static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f) * std::ldexp(1.0f, static_cast<int>(seed % 60) - 40);
  }
  return numbers;
}

// As which Adam keeps one of its slots.
std::vector<float> Squares(size_t n) {
  std::vector<float> numbers = Numbers(n, 1);
  for (float& x : numbers) x *= x;
  return numbers;
}

// The two neighbours of a float, and which of them is nearer, in double precision.
TEST_P(Bf16Test, RoundsToTheNearestTiesToEven) {
  for (size_t n : {1, 7, 16, 33, 1000}) {
    const std::vector<float> numbers = Numbers(n, static_cast<uint32_t>(n));
    const std::vector<Bf16> rounded = Rounded(numbers);
    for (size_t i = 0; i < n; ++i) {
      const uint32_t cut = std::bit_cast<uint32_t>(numbers[i]) & 0xffff0000u;
      const double below = std::bit_cast<float>(cut), above = std::bit_cast<float>(cut + 0x10000u);
      const double left = std::fabs(numbers[i] - below), right = std::fabs(above - numbers[i]);
      const bool up = left > right || (left == right && (cut >> 16) % 2 == 1);
      EXPECT_EQ(rounded[i].bits, (cut >> 16) + (up ? 1 : 0)) << numbers[i];
    }
  }
  // Subnormals as others, and carries into the exponent.
  std::vector<float> edges;
  for (uint32_t bits : {0x00000001u, 0x80000001u, 0x00008000u, 0x00008001u, 0x00018000u, 0x007fffffu, 0x807fffffu,
                        0x00800000u, 0x3fffffffu, 0x7f7f7fffu, 0x7f7f8000u}) {
    edges.push_back(std::bit_cast<float>(bits));
  }
  std::vector<uint32_t> halves;
  for (Bf16 half : Rounded(edges)) halves.push_back(half.bits);
  EXPECT_EQ(halves,
            (std::vector<uint32_t>{0, 0x8000, 0, 0x0001, 0x0002, 0x0080, 0x8080, 0x0080, 0x4000, 0x7f7f, 0x7f80}));
  const std::vector<Bf16> ties = Rounded({1.00390625f, 1.01171875f, -1.00390625f});  // 1 + 1/256, 1 + 3/256
  EXPECT_EQ(Widened(ties), (std::vector<float>{1.0f, 1.015625f, -1.0f}));
}

TEST_P(Bf16Test, WhatIsNotFiniteStaysSo) {
  const float quiet_low = std::bit_cast<float>(0x7f800001u);  // a NaN of which the upper half says infinity
  for (size_t at : {0, 5, 16}) {
    std::vector<float> numbers = Numbers(17, 3);
    for (float nan : {kNan, -kNan, quiet_low}) {
      numbers[at] = nan;
      EXPECT_TRUE(std::isnan(Widened(Rounded(numbers))[at]));
      EXPECT_FALSE(AllFinite(absl::MakeConstSpan(Rounded(numbers))));
    }
    for (float infinity : {kInfinity, -kInfinity}) {
      numbers[at] = infinity;
      EXPECT_EQ(Widened(Rounded(numbers))[at], infinity);
    }
    numbers[at] = std::numeric_limits<float>::max();
    EXPECT_EQ(Widened(Rounded(numbers))[at], kInfinity) << "beyond the largest";
    numbers[at] = -0.0f;
    EXPECT_TRUE(std::signbit(Widened(Rounded(numbers))[at]));
    EXPECT_TRUE(AllFinite(absl::MakeConstSpan(Rounded(numbers))));
  }
}

TEST_P(Bf16Test, AnUpdateByRoundedGradientsIsThatByTheirFloats) {
  const Update updates[] = {SgdUpdate{0.1f}, MomentumUpdate{0.02f, 0.9f}, MakeAdamUpdate(0.001, 0.9, 0.999, 1e-8, 3)};
  for (const Update& update : updates) {
    for (size_t n : {0, 1, 7, 16, 33, 4099}) {
      const std::vector<Bf16> gradient = Rounded(Numbers(n, 7));
      const std::vector<float> floats = Widened(gradient);
      for (const bool in_place : {true, false}) {
        std::vector<std::vector<float>> a(1 + SlotsOf(update), Squares(n)), b = a, apart = a;
        std::vector<UpdatedArray> of_a, of_b;
        for (size_t i = 0; i < a.size(); ++i) {
          of_a.push_back({a[i].data(), in_place ? a[i].data() : apart[i].data()});
          of_b.push_back({b[i].data(), b[i].data()});
        }
        ASSERT_TRUE(ApplyUpdate(update, absl::MakeConstSpan(gradient), of_a));
        ASSERT_TRUE(ApplyUpdate(update, absl::MakeConstSpan(floats), of_b));
        EXPECT_EQ(in_place ? a : apart, b) << n;
      }
      if (n == 0) continue;
      std::vector<Bf16> bad = gradient;
      bad[n / 2].bits = 0x7f80;
      std::vector<std::vector<float>> a(1 + SlotsOf(update), Squares(n));
      const std::vector<std::vector<float>> before = a;
      std::vector<UpdatedArray> arrays;
      for (std::vector<float>& array : a) arrays.push_back({array.data(), array.data()});
      EXPECT_FALSE(ApplyUpdate(update, absl::MakeConstSpan(bad), arrays));
      EXPECT_EQ(a, before);
    }
  }
}

// Beside 1, of which a bfloat16 has steps of 1/128, a thousandth is lost; what is kept of it adds up.
TEST_P(Bf16Test, FeedbackBringsWhatRoundingLeavesOut) {
  for (size_t n : {1, 16, 33}) {
    const std::vector<float> gradient(n, 1.001f);
    std::vector<float> residual(n), sum(n), sum_without(n);
    std::vector<Bf16> rounded(n);
    for (int step = 0; step < 1000; ++step) {
      RoundWithFeedback(gradient, residual.data(), rounded.data());
      const std::vector<float> pushed = Widened(rounded), without = Widened(Rounded(gradient));
      for (size_t i = 0; i < n; ++i) {
        sum[i] += pushed[i];
        sum_without[i] += without[i];
        ASSERT_LE(std::fabs(residual[i]), 1.0f / 128) << "at most one rounding is owed";
      }
    }
    for (size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(sum[i], 1001, 0.01);
      EXPECT_EQ(sum_without[i], 1000) << "the canary: without feedback it is lost";
    }
  }
}

TEST_P(Bf16Test, FeedbackIsKeptWhereNobodyWillApplyThePush) {
  std::vector<float> gradient = Numbers(33, 5), residual = Numbers(33, 6);
  const std::vector<float> before = residual;
  std::vector<Bf16> rounded(33);
  for (float bad : {kNan, kInfinity, std::numeric_limits<float>::max()}) {
    gradient[20] = bad;
    RoundWithFeedback(gradient, residual.data(), rounded.data());
    EXPECT_EQ(residual, before);
    EXPECT_FALSE(AllFinite(absl::MakeConstSpan(rounded)));
  }
}

}  // namespace
}  // namespace downpour
