#include "ps/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "tests/unit/ps/optimizer_fixture.h"

namespace downpour {
namespace {

constexpr OptimizerKind kAllKinds[] = {OptimizerKind::kSgd,     OptimizerKind::kMomentum, OptimizerKind::kNesterov,
                                       OptimizerKind::kAdagrad, OptimizerKind::kRmsProp,  OptimizerKind::kAdam,
                                       OptimizerKind::kAdamW,   OptimizerKind::kFtrl};

TEST(OptimizerTest, AppliesTheJobsRule) {
  DenseSlice sgd = SliceWith(OptimizerKind::kSgd, {1, 2});
  ASSERT_TRUE(MakeOptimizer(Spec(OptimizerKind::kSgd)).Apply(kKernelSlice, Floats({2, -2}).floats(), 0, sgd));
  EXPECT_EQ(ValuesOf(sgd.values), (std::vector<float>{0, 3}));
  EXPECT_EQ(sgd.version, 1u);

  TrainingSpec spec = Spec(OptimizerKind::kMomentum);
  spec.optimizer.momentum = 0.5;
  DenseSlice momentum = SliceWith(OptimizerKind::kMomentum, {0});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1}).floats(), 0, momentum));
  EXPECT_EQ(ValuesOf(momentum.slots[0]), std::vector<float>{1.5f});
  EXPECT_EQ(ValuesOf(momentum.values), std::vector<float>{-(0.5f + 0.75f)});
}

// Adam's correction of its bias depends on how often the slice was updated, restores included.
TEST(OptimizerTest, AdamCountsUpdatesFromTheSlicesVersion) {
  DenseSlice young = SliceWith(OptimizerKind::kAdam, {0});
  DenseSlice old = SliceWith(OptimizerKind::kAdam, {0});
  old.version = 1000000;
  const SliceOptimizer adam = MakeOptimizer(Spec(OptimizerKind::kAdam));
  ASSERT_TRUE(adam.Apply(kKernelSlice, Floats({1}).floats(), 0, young));
  ASSERT_TRUE(adam.Apply(kKernelSlice, Floats({1}).floats(), 0, old));
  EXPECT_NEAR(young.values.floats()[0], -0.5f, 1e-5);  // the first step is as long as the rate
  EXPECT_NEAR(old.values.floats()[0], -0.5f * 0.1f / std::sqrt(0.001f), 1e-3);
}

// With sync: two gradients change the values once, by their mean, as one push of that mean would.
TEST(OptimizerTest, AGroupChangesTheValuesOnceByItsMean) {
  TrainingSpec spec = Spec(OptimizerKind::kMomentum);
  DenseSlice alone = SliceWith(OptimizerKind::kMomentum, {1, 2}), together = alone;
  together.slots.push_back(Payload::Zeros(8));
  const SliceOptimizer optimizer = MakeOptimizer(spec);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(optimizer.Apply(kKernelSlice, Floats({3, -1}).floats(), 0, alone));
    ASSERT_TRUE(optimizer.Gather(Floats({4, 0}).floats(), 0.5, together));
    EXPECT_FALSE(optimizer.Gather(Floats({1, NAN}).floats(), 0.5, together)) << "and leaves the sum as it is";
    const Payload held = together.slots.back();  // as a snapshot does
    ASSERT_TRUE(optimizer.Gather(Floats({2, -2}).floats(), 0.5, together));
    EXPECT_EQ(ValuesOf(held), (std::vector<float>{2, 0})) << "what another holds stays as it was";
    EXPECT_EQ(together.version, static_cast<uint64_t>(round));
    ASSERT_TRUE(optimizer.ApplyGathered(kKernelSlice, together));
    EXPECT_EQ(ValuesOf(together.slots.back()), (std::vector<float>{0, 0}));
    EXPECT_EQ(ValuesOf(together.values), ValuesOf(alone.values));
    EXPECT_EQ(ValuesOf(together.slots[0]), ValuesOf(alone.slots[0]));
  }
  EXPECT_EQ(together.version, 2u);
}

TEST(RunOfTest, IsTheMostSquareMatrixOfTheDimensions) {
  const auto run_of = [](std::vector<int64_t> shape, int64_t offset) {
    const MatrixRun run = RunOf({.name = "v", .shape = std::move(shape)}, {.offset = offset, .elements = 1});
    return std::pair(run.columns, run.lead);
  };
  EXPECT_EQ(run_of({784, 256}, 300), std::pair(size_t{256}, size_t{44}));
  EXPECT_EQ(run_of({32, 16, 3, 3}, 0), std::pair(size_t{144}, size_t{0})) << "outputs first, as PyTorch has it";
  EXPECT_EQ(run_of({3, 3, 16, 32}, 0), std::pair(size_t{32}, size_t{0})) << "outputs last, as Keras has it";
  EXPECT_EQ(run_of({}, 0), std::pair(size_t{1}, size_t{0}));
}

TEST(OptimizerTest, LeavesAloneWhatOthersHold) {
  for (const OptimizerKind kind : kAllKinds) {
    DenseSlice alone = SliceWith(kind, {1, 2, 3});
    DenseSlice shared = SliceWith(kind, {1, 2, 3});
    const Payload pulled = shared.values;
    const std::vector<Payload> snapshot = shared.slots;
    const std::byte* in_place = alone.values.data();
    const SliceOptimizer optimizer = MakeOptimizer(Spec(kind));
    ASSERT_TRUE(optimizer.Apply(kKernelSlice, Floats({4, 5, 6}).floats(), 0, alone));
    ASSERT_TRUE(optimizer.Apply(kKernelSlice, Floats({4, 5, 6}).floats(), 0, shared));

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
      DenseSlice slice = SliceWith(OptimizerKind::kMomentum, {1, 2});
      const Payload holder = is_shared ? slice.values : Payload();
      EXPECT_FALSE(
          MakeOptimizer(Spec(OptimizerKind::kMomentum)).Apply(kKernelSlice, Floats({1, bad}).floats(), 0, slice));
      EXPECT_EQ(ValuesOf(slice.values), (std::vector<float>{1, 2}));
      EXPECT_EQ(ValuesOf(slice.slots[0]), (std::vector<float>{0, 0}));
      EXPECT_EQ(slice.version, 0u);
    }
  }
}

// Whether somebody else holds the slice decides where an update goes, not whether it is one.
TEST(OptimizerTest, AGradientThatWouldOverflowChangesNothing) {
  for (const OptimizerKind kind : kAllKinds) {
    for (const bool is_shared : {false, true}) {
      TrainingSpec spec = Spec(kind);
      spec.optimizer.learning_rate = 1;
      DenseSlice slice = SliceWith(kind, {1, 2});
      ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1, 1}).floats(), 0, slice));
      const std::vector<float> before = ValuesOf(slice.values);
      const std::vector<float> first_slot = slice.slots.empty() ? before : ValuesOf(slice.slots[0]);
      const Payload holder = is_shared ? slice.values : Payload();
      EXPECT_FALSE(
          MakeOptimizer(spec).Apply(kKernelSlice, Floats({1, std::numeric_limits<float>::max()}).floats(), 0, slice));
      EXPECT_EQ(ValuesOf(slice.values), before);
      EXPECT_EQ(slice.slots.empty() ? before : ValuesOf(slice.slots[0]), first_slot);
      EXPECT_EQ(slice.version, 1u);
      EXPECT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1, 1}).floats(), 0, slice))
          << "the next one counts again";
    }
  }
}

TEST(OptimizerTest, NesterovLooksAheadAlongItsVelocity) {
  TrainingSpec spec = Spec(OptimizerKind::kNesterov);
  spec.optimizer.momentum = 0.5;
  DenseSlice slice = SliceWith(OptimizerKind::kNesterov, {0});
  slice.slots[0] = Floats({8});
  ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1}).floats(), 0, slice));
  EXPECT_EQ(ValuesOf(slice.slots[0]), std::vector<float>{5});
  EXPECT_EQ(ValuesOf(slice.values), std::vector<float>{-0.5f * (0.5f * 5 + 1)});

  slice.slots[0] = Floats({8});
  slice.values = Floats({0});
  ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1}).floats(), 15, slice));
  const double share = 10.0 / 64, forgotten = 0.1 / 16;  // staleness_rule.h, of a slice without directions
  const double memory = 1 - forgotten, gain = share * forgotten / 0.5;
  const double fresh = share * 15 / 16 * std::sqrt(10.0) / 10 / 0.5;
  const double v = memory * 8 + gain;
  EXPECT_NEAR(slice.slots[0].floats()[0], v, 1e-6);
  EXPECT_NEAR(slice.values.floats()[0], -0.5 * (memory * v + gain + fresh), 1e-6);
}

TEST(OptimizerTest, WeightDecayIsAddedToTheGradientAndOfAdamWDecoupledFromIt) {
  TrainingSpec spec = Spec(OptimizerKind::kSgd);
  spec.optimizer.weight_decay = 0.25;
  DenseSlice sgd = SliceWith(OptimizerKind::kSgd, {8});
  ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1}).floats(), 0, sgd));
  EXPECT_EQ(ValuesOf(sgd.values), std::vector<float>{8 - 0.5f * 3});

  // Adam's step is as long as the rate whatever the gradient, and so whatever is added to it.
  for (const OptimizerKind kind : {OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    spec.optimizer.kind = kind;
    DenseSlice slice = SliceWith(kind, {8});
    ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1}).floats(), 0, slice));
    const bool is_decoupled = kind == OptimizerKind::kAdamW;
    EXPECT_NEAR(slice.slots[0].floats()[0], is_decoupled ? 0.1 : 0.3, 1e-6);
    EXPECT_NEAR(slice.values.floats()[0], is_decoupled ? 8 - 0.5 - 0.5 * 0.25 * 8 : 8 - 0.5, 1e-5);
  }
}

// The share of the schedule goes by what the slice consumed: a push without effect is a step of the job too.
TEST(OptimizerTest, TheRateFollowsTheStepsThatTheSliceConsumed) {
  TrainingSpec spec = Spec(OptimizerKind::kSgd);
  spec.optimizer.schedule = {.kind = ScheduleKind::kCosine};
  DenseSlice slice = SliceWith(OptimizerKind::kSgd, {0});
  slice.consumed = 50;
  ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1}).floats(), 0, slice));
  EXPECT_NEAR(slice.values.floats()[0], -0.25, 1e-6) << "half of the job is done";
  slice.consumed = 100;
  const std::vector<float> before = ValuesOf(slice.values);
  ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1}).floats(), 0, slice));
  EXPECT_EQ(ValuesOf(slice.values), before) << "all of it";
}

TEST(OptimizerTest, AVariableHasItsOwnNumbers) {
  TrainingSpec spec = Spec(OptimizerKind::kSgd);
  spec.optimizer.weight_decay = 0.25;
  spec.optimizer.overrides = {{.variables = "*/bias", .learning_rate = 1, .weight_decay = 0}};
  DenseSlice kernel = SliceWith(OptimizerKind::kSgd, {8}), bias = SliceWith(OptimizerKind::kSgd, {8});
  const SliceOptimizer optimizer = MakeOptimizer(spec);
  ASSERT_TRUE(optimizer.Apply(kKernelSlice, Floats({1}).floats(), 0, kernel));
  ASSERT_TRUE(optimizer.Apply(kBiasSlice, Floats({1}).floats(), 0, bias));
  EXPECT_EQ(ValuesOf(kernel.values), std::vector<float>{8 - 0.5f * 3});
  EXPECT_EQ(ValuesOf(bias.values), std::vector<float>{7});
}

// Another rate goes on from the values that there are: with the paper's z they would be halved.
TEST(OptimizerTest, FtrlKeepsItsValuesWhenTheRateChanges) {
  TrainingSpec spec = Spec(OptimizerKind::kFtrl);
  DenseSlice slice = SliceWith(OptimizerKind::kFtrl, {0});
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1}).floats(), 0, slice));
  const float before = slice.values.floats()[0];
  spec.optimizer.learning_rate /= 2;
  ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1e-3f}).floats(), 0, slice));
  EXPECT_NEAR(slice.values.floats()[0], before, 1e-3);
}

// What l1 makes zero does not shrink with the rate.
TEST(OptimizerTest, AScheduleLeavesFtrlsThresholdAsItIs) {
  TrainingSpec spec = Spec(OptimizerKind::kFtrl);
  spec.optimizer.l1 = 1;
  spec.optimizer.schedule.warmup_steps = 2;
  DenseSlice slice = SliceWith(OptimizerKind::kFtrl, {0});
  ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1.5f}).floats(), 0, slice));
  EXPECT_EQ(ValuesOf(slice.slots[0]), std::vector<float>{0.5f * 0.5f * 1.5f});
  EXPECT_EQ(ValuesOf(slice.values), std::vector<float>{0}) << "a half of the rate, but not of the threshold 0.5";
}

}  // namespace
}  // namespace downpour
