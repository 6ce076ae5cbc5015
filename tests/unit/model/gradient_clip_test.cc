#include "model/gradient_clip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace downpour {
namespace {

Payload GradientOf(const std::vector<float>& numbers) { return Payload::CopyOf(numbers.data(), numbers.size() * 4); }

std::vector<std::vector<float>> Clipped(const OptimizerSpec& spec, const std::vector<std::vector<float>>& gradient) {
  VariableGradients gradients;
  for (size_t v = 0; v < gradient.size(); ++v) gradients.emplace_back(v, GradientOf(gradient[v]));
  GradientClip(spec).Apply(&gradients);
  std::vector<std::vector<float>> clipped;
  for (const auto& [variable, values] : gradients) {
    clipped.emplace_back(values.floats().begin(), values.floats().end());
  }
  return clipped;
}

constexpr float kEndless = std::numeric_limits<float>::infinity();

TEST(GradientClipTest, WithoutABoundNothingChanges) {
  EXPECT_EQ(Clipped({}, {{3e38f, -4}, {kEndless}}), (std::vector<std::vector<float>>{{3e38f, -4}, {kEndless}}));
}

TEST(GradientClipTest, AValueIsClippedByItself) {
  EXPECT_EQ(Clipped({.clip_value = 2}, {{3, -4, 1}, {-2}}), (std::vector<std::vector<float>>{{2, -2, 1}, {-2}}));
  EXPECT_TRUE(std::isnan(Clipped({.clip_value = 2}, {{NAN}})[0][0])) << "what has diverged is seen to";
}

// Of one slice or one variable the norm would be below the bound here.
TEST(GradientClipTest, TheNormIsThatOfAllVariables) {
  const auto clipped = Clipped({.clip_norm = 6.5}, {{3, 4}, {12}});
  for (const auto& [found, whole] : {std::pair(clipped[0][0], 3), {clipped[0][1], 4}, {clipped[1][0], 12}}) {
    EXPECT_NEAR(found, static_cast<float>(whole) / 2, 1e-5);
  }
  EXPECT_EQ(Clipped({.clip_norm = 13.1}, {{3, 4}, {12}}), (std::vector<std::vector<float>>{{3, 4}, {12}}));
}

TEST(GradientClipTest, LargeNumbersHaveANorm) {
  const auto clipped = Clipped({.clip_norm = 1}, {{3e38f}, {3e38f}});
  EXPECT_NEAR(clipped[0][0], std::sqrt(0.5), 1e-6);
}

TEST(GradientClipTest, ValuesAreClippedBeforeTheNormIsTaken) {
  EXPECT_NEAR(Clipped({.clip_value = 4, .clip_norm = 2.5}, {{3}, {100}})[1][0], 2, 1e-5);
}

TEST(GradientClipTest, ANormThatIsNotFiniteSpoilsTheWholeStep) {
  for (const float bad : {kEndless, std::numeric_limits<float>::quiet_NaN()}) {
    const auto clipped = Clipped({.clip_norm = 1}, {{1, 2}, {bad}});
    for (const float g : {clipped[0][0], clipped[0][1], clipped[1][0]}) EXPECT_TRUE(std::isnan(g));
  }
}

TEST(GradientClipTest, WhatOthersHoldStaysAsItIs) {
  const Payload shared = GradientOf({3, 4});
  VariableGradients gradients = {{0, shared}};
  GradientClip({.clip_norm = 1}).Apply(&gradients);
  EXPECT_EQ(shared.floats()[0], 3);
}

}  // namespace
}  // namespace downpour
