#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "tensor/apply_kernels.h"

namespace downpour {
namespace {

// Algorithm 1 of Kingma and Ba as printed, in double.
TEST(AdamUpdateTest, IsTheAlgorithmOfThePaper) {
  double w = 0.5, m = 0, v = 0;
  float fw = 0.5f, fm = 0, fv = 0;
  for (uint64_t step = 1; step <= 2000; ++step) {
    const double g = std::sin(0.1 * static_cast<double>(step)) + 0.3;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double exponent = static_cast<double>(step);
    w -= 0.001 * (m / (1 - std::pow(0.9, exponent))) / (std::sqrt(v / (1 - std::pow(0.999, exponent))) + 1e-8);
    const float gradient = static_cast<float>(g);
    ASSERT_TRUE(ApplyUpdate(MakeAdamUpdate(0.001, 0.9, 0.999, 1e-8, step), {&gradient, 1},
                            {{&fw, &fw}, {&fm, &fm}, {&fv, &fv}}));
  }
  EXPECT_NEAR(fw, w, 1e-4);
  EXPECT_GT(std::fabs(w - 0.5), 0.1);
}

TEST(AdamUpdateTest, FirstStepHasTheSizeOfTheRateWhateverTheGradient) {
  for (float g : {1e-3f, 1.0f, 1e3f}) {
    float w = 0, m = 0, v = 0;
    ASSERT_TRUE(ApplyUpdate(MakeAdamUpdate(0.01, 0.9, 0.999, 1e-8, 1), {&g, 1}, {{&w, &w}, {&m, &m}, {&v, &v}}));
    EXPECT_NEAR(w, -0.01, 1e-6);
  }
}

TEST(AdamUpdateTest, CorrectionsVanishInTheLongRun) {
  const AdamUpdate update = MakeAdamUpdate(0.001, 0.9, 0.999, 1e-8, uint64_t{1} << 40);
  EXPECT_EQ(update.step_size, 0.001f);
  EXPECT_EQ(update.epsilon, 1e-8f);
}

}  // namespace
}  // namespace downpour
