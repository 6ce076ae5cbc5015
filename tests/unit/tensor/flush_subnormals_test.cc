#include "tensor/flush_subnormals.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tensor/apply_kernels.h"
#include "tensor/deflation.h"

namespace downpour {
namespace {

constexpr float kLeast = std::numeric_limits<float>::min();

float Half(float x) {
  volatile float divisor = 2;  // so that the division takes place here
  return x / divisor;
}

TEST(FlushSubnormalsTest, LastsAsLongAsItLives) {
  EXPECT_GT(Half(kLeast), 0);
  {
    const FlushSubnormals flush;
    EXPECT_EQ(Half(kLeast), 0);
    EXPECT_EQ(Half(2 * kLeast), kLeast);
  }
  EXPECT_GT(Half(kLeast), 0);
}

TEST(FlushSubnormalsTest, AVelocityWithoutGradientsEndsAt0) {
  constexpr size_t kSize = 37;
  std::vector<float> values(kSize, 1), velocity(kSize, kLeast);
  const std::vector<float> gradient(kSize, 0);
  Magnitudes bounds{};
  ASSERT_TRUE(ApplyUpdate(MomentumUpdate{.learning_rate = 0.1f, .momentum = 0.5f}, absl::MakeConstSpan(gradient),
                          {{values.data(), values.data()}, {velocity.data(), velocity.data()}}, &bounds));
  EXPECT_EQ(velocity, std::vector<float>(kSize, 0));
  EXPECT_EQ(values, std::vector<float>(kSize, 1));
}

TEST(FlushSubnormalsTest, AStepOfTinyNumbersHasNoDirection) {
  std::vector<float> step(64, 1e-20f);  // whose squares lie below
  Deflation deflation;
  const RankOne found = deflation.Find(
      {.columns = 8}, {.least = 0, .most = 0}, [](size_t, absl::Span<float>) {}, absl::MakeSpan(step));
  EXPECT_EQ(found.left, nullptr);
}

}  // namespace
}  // namespace downpour
