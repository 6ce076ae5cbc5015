#include "ps/apply.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace downpour {
namespace {

Payload Floats(const std::vector<float>& values) { return Payload::CopyOf(values.data(), values.size() * 4); }
std::vector<float> ValuesOf(const Payload& payload) { return {payload.floats().begin(), payload.floats().end()}; }

TrainingSpec Spec(OptimizerKind kind) {
  TrainingSpec spec;
  spec.optimizer.kind = kind;
  spec.optimizer.learning_rate = 0.5;
  return spec;
}

ServedSlice SliceWith(OptimizerKind kind, const std::vector<float>& values) {
  ServedSlice slice;
  slice.values = Floats(values);
  for (int i = 0; i < SlotCount(kind); ++i) slice.slots.push_back(Payload::Zeros(values.size() * 4));
  return slice;
}

TEST(OptimizerTest, AppliesTheJobsRule) {
  ServedSlice sgd = SliceWith(OptimizerKind::kSgd, {1, 2});
  ASSERT_TRUE(Optimizer(Spec(OptimizerKind::kSgd)).Apply(Floats({2, -2}).floats(), 0, sgd));
  EXPECT_EQ(ValuesOf(sgd.values), (std::vector<float>{0, 3}));
  EXPECT_EQ(sgd.version, 1u);

  TrainingSpec spec = Spec(OptimizerKind::kMomentum);
  spec.optimizer.momentum = 0.5;
  ServedSlice momentum = SliceWith(OptimizerKind::kMomentum, {0});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Optimizer(spec).Apply(Floats({1}).floats(), 0, momentum));
  EXPECT_EQ(ValuesOf(momentum.slots[0]), std::vector<float>{1.5f});
  EXPECT_EQ(ValuesOf(momentum.values), std::vector<float>{-(0.5f + 0.75f)});
}

// Adam's correction of its bias depends on how often the slice was updated, restores included.
TEST(OptimizerTest, AdamCountsUpdatesFromTheSlicesVersion) {
  ServedSlice young = SliceWith(OptimizerKind::kAdam, {0});
  ServedSlice old = SliceWith(OptimizerKind::kAdam, {0});
  old.version = 1000000;
  const Optimizer adam(Spec(OptimizerKind::kAdam));
  ASSERT_TRUE(adam.Apply(Floats({1}).floats(), 0, young));
  ASSERT_TRUE(adam.Apply(Floats({1}).floats(), 0, old));
  EXPECT_NEAR(young.values.floats()[0], -0.5f, 1e-5);  // the first step is as long as the rate
  EXPECT_NEAR(old.values.floats()[0], -0.5f * 0.1f / std::sqrt(0.001f), 1e-3);
}

// With sync: two gradients change the values once, by their mean, as one push of that mean would.
TEST(OptimizerTest, AGroupChangesTheValuesOnceByItsMean) {
  TrainingSpec spec = Spec(OptimizerKind::kMomentum);
  ServedSlice alone = SliceWith(OptimizerKind::kMomentum, {1, 2}), together = alone;
  together.slots.push_back(Payload::Zeros(8));
  const Optimizer optimizer(spec);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(optimizer.Apply(Floats({3, -1}).floats(), 0, alone));
    ASSERT_TRUE(optimizer.Gather(Floats({4, 0}).floats(), 0.5, together));
    EXPECT_FALSE(optimizer.Gather(Floats({1, NAN}).floats(), 0.5, together)) << "and leaves the sum as it is";
    const Payload held = together.slots.back();  // as a snapshot does
    ASSERT_TRUE(optimizer.Gather(Floats({2, -2}).floats(), 0.5, together));
    EXPECT_EQ(ValuesOf(held), (std::vector<float>{2, 0})) << "what another holds stays as it was";
    EXPECT_EQ(together.version, static_cast<uint64_t>(round));
    ASSERT_TRUE(optimizer.ApplyGathered(together));
    EXPECT_EQ(ValuesOf(together.slots.back()), (std::vector<float>{0, 0}));
    EXPECT_EQ(ValuesOf(together.values), ValuesOf(alone.values));
    EXPECT_EQ(ValuesOf(together.slots[0]), ValuesOf(alone.slots[0]));
  }
  EXPECT_EQ(together.version, 2u);
}

// The rule of ps/staleness_rule.h, by hand.
TEST(OptimizerTest, AStalePushCountsLessAndStaysLongerInTheMomentum) {
  TrainingSpec spec = Spec(OptimizerKind::kMomentum);
  spec.optimizer.momentum = 0.75;
  ServedSlice slice = SliceWith(OptimizerKind::kMomentum, {0});
  slice.slots[0] = Floats({8});
  ASSERT_TRUE(Optimizer(spec).Apply(Floats({1}).floats(), 15, slice));
  const double v = (1 - 0.25 / 32) * 8 + 1.0 / 32 / std::pow(16, 0.625);
  EXPECT_NEAR(slice.slots[0].floats()[0], v, 1e-6);
  EXPECT_NEAR(slice.values.floats()[0], -0.5 * (v + 15.0 / 16 / std::pow(16, 0.375)), 1e-6);

  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdam}) {
    ServedSlice fresh = SliceWith(kind, {0}), stale = SliceWith(kind, {0});
    ASSERT_TRUE(Optimizer(Spec(kind)).Apply(Floats({1}).floats(), 0, fresh));
    ASSERT_TRUE(Optimizer(Spec(kind)).Apply(Floats({1}).floats(), 15, stale));
    EXPECT_NEAR(stale.values.floats()[0] / fresh.values.floats()[0], 1.0 / 16, 1e-6);
  }
}

TEST(OptimizerTest, TheUsualStalenessIsThatOfPushesThatHadAnEffect) {
  ServedSlice slice = SliceWith(OptimizerKind::kSgd, {1});
  const Optimizer sgd(Spec(OptimizerKind::kSgd));
  ASSERT_TRUE(sgd.Apply(Floats({1}).floats(), 64, slice));
  EXPECT_EQ(slice.usual_staleness, UsualStaleness(0, 64));
  EXPECT_FALSE(sgd.Apply(Floats({NAN}).floats(), 1000, slice));
  ASSERT_TRUE(sgd.Apply(Floats({1}).floats(), std::nullopt, slice));
  EXPECT_EQ(slice.usual_staleness, UsualStaleness(0, 64)) << "and where it is not known it stays";
}

TEST(OptimizerTest, LeavesAloneWhatOthersHold) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam}) {
    ServedSlice alone = SliceWith(kind, {1, 2, 3});
    ServedSlice shared = SliceWith(kind, {1, 2, 3});
    const Payload pulled = shared.values;
    const std::vector<Payload> snapshot = shared.slots;
    const std::byte* in_place = alone.values.data();
    const Optimizer optimizer(Spec(kind));
    ASSERT_TRUE(optimizer.Apply(Floats({4, 5, 6}).floats(), 0, alone));
    ASSERT_TRUE(optimizer.Apply(Floats({4, 5, 6}).floats(), 0, shared));

    EXPECT_EQ(alone.values.data(), in_place);
    EXPECT_NE(shared.values.data(), pulled.data());
    EXPECT_EQ(ValuesOf(pulled), (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(ValuesOf(shared.values), ValuesOf(alone.values));
    for (size_t i = 0; i < snapshot.size(); ++i) {
      EXPECT_EQ(ValuesOf(snapshot[i]), (std::vector<float>{0, 0, 0}));
      EXPECT_EQ(ValuesOf(shared.slots[i]), ValuesOf(alone.slots[i]));
    }
  }
}

TEST(OptimizerTest, AGradientThatIsNotFiniteChangesNothing) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const bool is_shared : {false, true}) {
      ServedSlice slice = SliceWith(OptimizerKind::kMomentum, {1, 2});
      const Payload holder = is_shared ? slice.values : Payload();
      EXPECT_FALSE(Optimizer(Spec(OptimizerKind::kMomentum)).Apply(Floats({1, bad}).floats(), 0, slice));
      EXPECT_EQ(ValuesOf(slice.values), (std::vector<float>{1, 2}));
      EXPECT_EQ(ValuesOf(slice.slots[0]), (std::vector<float>{0, 0}));
      EXPECT_EQ(slice.version, 0u);
    }
  }
}

// Whether somebody else holds the slice decides where an update goes, not whether it is one.
TEST(OptimizerTest, AGradientThatWouldOverflowChangesNothing) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam}) {
    for (const bool is_shared : {false, true}) {
      TrainingSpec spec = Spec(kind);
      spec.optimizer.learning_rate = 1;
      ServedSlice slice = SliceWith(kind, {1, 2});
      ASSERT_TRUE(Optimizer(spec).Apply(Floats({1, 1}).floats(), 0, slice));
      const std::vector<float> before = ValuesOf(slice.values);
      const std::vector<float> first_slot = slice.slots.empty() ? before : ValuesOf(slice.slots[0]);
      const Payload holder = is_shared ? slice.values : Payload();
      EXPECT_FALSE(Optimizer(spec).Apply(Floats({1, std::numeric_limits<float>::max()}).floats(), 0, slice));
      EXPECT_EQ(ValuesOf(slice.values), before);
      EXPECT_EQ(slice.slots.empty() ? before : ValuesOf(slice.slots[0]), first_slot);
      EXPECT_EQ(slice.version, 1u);
      EXPECT_TRUE(Optimizer(spec).Apply(Floats({1, 1}).floats(), 0, slice)) << "the next one counts again";
    }
  }
}

}  // namespace
}  // namespace downpour
