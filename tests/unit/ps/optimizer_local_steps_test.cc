// What servers do with what local steps brought.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "ps/optimizer.h"
#include "tests/unit/ps/optimizer_fixture.h"

namespace downpour {
namespace {

TEST(OptimizerLocalStepsTest, AppliesTheOuterRuleToWhatLocalStepsBrought) {
  TrainingSpec spec = Spec(OptimizerKind::kAdam);
  spec.local_steps = 4;
  spec.outer = OuterDefaultsOf(OptimizerKind::kNesterov);
  EXPECT_EQ(SlotCount(spec), 1);
  DenseSlice slice = SliceWith(OptimizerKind::kNesterov, {1});
  ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1}).floats(), 0, slice));
  EXPECT_NEAR(ValuesOf(slice.values)[0], 1 - 0.7 * 1.9, 1e-6);
  spec.outer = OuterDefaultsOf(OptimizerKind::kSgd);
  EXPECT_EQ(SlotCount(spec), 0);
  DenseSlice averaged = SliceWith(OptimizerKind::kSgd, {1});
  ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({0.25}).floats(), 0, averaged));
  EXPECT_EQ(ValuesOf(averaged.values)[0], 0.75f);
}

// At staleness 3 each counts a quarter, and a momentum of 0.9 becomes 0.6; beyond 9 there is none.
TEST(OptimizerLocalStepsTest, StaleDifferencesCountLessAndAreSoonerForgotten) {
  TrainingSpec spec = Spec(OptimizerKind::kAdam);
  spec.local_steps = 4;
  spec.outer = OuterDefaultsOf(OptimizerKind::kNesterov);
  DenseSlice slice = SliceWith(OptimizerKind::kNesterov, {0});
  slice.version = 100;
  slice.usual_staleness = 3 * kStalenessOne;
  const SliceOptimizer optimizer = MakeOptimizer(spec);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(optimizer.Apply(kKernelSlice, Floats({1}).floats(), 3, slice));
  EXPECT_NEAR(ValuesOf(slice.slots[0])[0], 0.25 * 1.6, 1e-6);
  EXPECT_NEAR(ValuesOf(slice.values)[0], -0.7 * 0.25 * (1 + 0.6 + 1 + 0.6 * 1.6), 1e-6);
  DenseSlice stale = SliceWith(OptimizerKind::kNesterov, {0});
  stale.slots[0] = Floats({8});
  stale.version = 100;
  ASSERT_TRUE(optimizer.Apply(kKernelSlice, Floats({1}).floats(), 19, stale));
  EXPECT_NEAR(ValuesOf(stale.slots[0])[0], 1.0 / 20, 1e-6) << "what was there is forgotten";
  spec.outer = OuterDefaultsOf(OptimizerKind::kSgd);
  DenseSlice averaged = SliceWith(OptimizerKind::kSgd, {0});
  ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1}).floats(), 3, averaged));
  EXPECT_NEAR(ValuesOf(averaged.values)[0], -0.25, 1e-6);
}

// At staleness 15 eight directions count 1/16, and what is beside them 8/16.
TEST(OptimizerLocalStepsTest, AStaleDifferenceCountsMoreBesideItsLargestDirections) {
  constexpr size_t kN = 16;
  std::vector<float> difference(kN * kN), expected(kN * kN);
  std::vector<Bf16> rounded(kN * kN);
  for (size_t i = 0; i < kN; ++i) {
    difference[i * kN + i] = i < 8 ? 128.0f - 8.0f * static_cast<float>(i) : 1.0f;
    expected[i * kN + i] = i < 8 ? -difference[i * kN + i] / 16 : -0.5f;
  }
  RoundToBf16(difference, rounded.data());
  const auto applied = [&](GradientSpan gradient, bool trainable, uint64_t staleness) {
    JobSpec job;
    job.model.variables = {{.name = "w", .shape = {kN, kN}, .trainable = trainable}};
    job.training.batch_size = 1;
    job.training.local_steps = 4;
    DenseSlice slice = SliceWith(OptimizerKind::kSgd, std::vector<float>(kN * kN));
    EXPECT_TRUE(SliceOptimizer(job, *GridOf(job.model), Plan(job, 100)).Apply(SliceId{0}, gradient, staleness, slice));
    return ValuesOf(slice.values);
  };
  EXPECT_EQ(applied(absl::MakeConstSpan(difference), true, 15), expected);
  EXPECT_EQ(applied(absl::MakeConstSpan(rounded), true, 15), expected) << "as it travels";
  std::vector<float> whole(kN * kN), mean(kN * kN);
  std::transform(difference.begin(), difference.end(), whole.begin(), std::negate<>());
  std::transform(difference.begin(), difference.end(), mean.begin(), [](float x) { return -x / 16; });
  EXPECT_EQ(applied(absl::MakeConstSpan(difference), false, 15), mean) << "statistics have no directions";
  EXPECT_EQ(applied(absl::MakeConstSpan(difference), true, 0), whole) << "where nothing is stale it counts in full";
}

}  // namespace
}  // namespace downpour
