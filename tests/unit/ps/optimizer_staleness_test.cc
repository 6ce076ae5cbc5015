// What a stale push is worth: the rules of ps/staleness_rule.h as the optimizer applies them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "schema/checkpoint_format.h"
#include "tests/unit/ps/optimizer_fixture.h"

namespace downpour {
namespace {

// By hand, after ps/staleness_rule.h: what slowMomentum lets a gradient count at staleness s - 1, of a slice that is
// too small for a direction; and what of its whole effect it applies at once.
double Share(double s) { return std::min(s, 10.0) / s / std::sqrt(s); }
double Fresh(double s) { return Share(s) * (1 - 1 / s) * std::sqrt(std::min(s, 10.0)) / 10; }

TEST(OptimizerStalenessTest, AStalePushCountsLessAndStaysLongerInTheMomentum) {
  TrainingSpec spec = Spec(OptimizerKind::kMomentum);
  spec.optimizer.momentum = 0.75;
  DenseSlice slice = SliceWith(OptimizerKind::kMomentum, {0});
  slice.slots[0] = Floats({8});
  ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1}).floats(), 15, slice));
  const double forgotten = 0.1 / 16;  // as of a momentum of 0.9
  const double v = (1 - forgotten) * 8 + Share(16) * forgotten / 0.25;
  EXPECT_NEAR(slice.slots[0].floats()[0], v, 1e-6);
  EXPECT_NEAR(slice.values.floats()[0], -0.5 * (v + Fresh(16) / 0.25), 1e-6);

  spec.optimizer.momentum = 0.96;  // which remembers longer by itself
  slice = SliceWith(OptimizerKind::kMomentum, {0});
  slice.slots[0] = Floats({8});
  ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1}).floats(), 15, slice));
  EXPECT_NEAR(slice.slots[0].floats()[0], (1 - 0.04 / 16) * 8 + Share(16) / 16, 1e-6);

  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kRmsProp}) {
    TrainingSpec steep = Spec(kind);
    steep.staleness_method = StalenessMethod::kSteepRate;
    DenseSlice fresh = SliceWith(kind, {0}), stale = SliceWith(kind, {0});
    ASSERT_TRUE(MakeOptimizer(steep).Apply(kKernelSlice, Floats({1}).floats(), 0, fresh));
    ASSERT_TRUE(MakeOptimizer(steep).Apply(kKernelSlice, Floats({1}).floats(), 15, stale));
    EXPECT_NEAR(stale.values.floats()[0] / fresh.values.floats()[0], Share(16), 1e-6);
  }
}

TEST(OptimizerStalenessTest, SgdSpreadsAStalePushOverThoseToCome) {
  const SliceOptimizer sgd = MakeOptimizer(Spec(OptimizerKind::kSgd));
  DenseSlice slice = SliceWith(OptimizerKind::kSgd, {0});
  ASSERT_TRUE(sgd.Apply(kKernelSlice, Floats({1}).floats(), 15, slice));
  const double forgotten = 0.1 / 16, v = Share(16) * forgotten;
  EXPECT_NEAR(slice.slots[0].floats()[0], v, 1e-8);
  EXPECT_NEAR(slice.values.floats()[0], -0.5 * (v + Fresh(16)), 1e-7);
  ASSERT_TRUE(sgd.Apply(kKernelSlice, Floats({0}).floats(), 15, slice));
  EXPECT_NEAR(slice.values.floats()[0], -0.5 * (v + Fresh(16) + (1 - forgotten) * v), 1e-7);

  DenseSlice hardly = SliceWith(OptimizerKind::kSgd, {0});  // stale by one: a velocity of 4 updates
  ASSERT_TRUE(sgd.Apply(kKernelSlice, Floats({1}).floats(), 1, hardly));
  EXPECT_NEAR(hardly.slots[0].floats()[0], Share(2) / 4, 1e-7);

  DenseSlice fresh = SliceWith(OptimizerKind::kSgd, {0});
  fresh.slots[0] = Floats({8});
  ASSERT_TRUE(sgd.Apply(kKernelSlice, Floats({1}).floats(), 0, fresh));
  EXPECT_EQ(ValuesOf(fresh.values), std::vector<float>{-0.5f}) << "where nothing is stale nothing is remembered";
}

// Of a slice whose bias is over, with m 8 and v 4.
void ExpectAdam(double beta1, double beta2, uint64_t staleness, double forgotten) {
  TrainingSpec spec = Spec(OptimizerKind::kAdam);
  spec.optimizer.beta1 = beta1;
  spec.optimizer.beta2 = beta2;
  DenseSlice slice = SliceWith(OptimizerKind::kAdam, {0});
  slice.version = 1 << 20;
  slice.slots[0] = Floats({8});
  slice.slots[1] = Floats({4});
  ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({1}).floats(), staleness, slice));
  const double s = 1 + static_cast<double>(staleness);
  const double m = (1 - forgotten) * 8 + forgotten * Share(s), v = beta2 * 4 + (1 - beta2);
  EXPECT_NEAR(slice.slots[0].floats()[0], m, 1e-5) << beta1 << " " << beta2 << " " << staleness;
  EXPECT_NEAR(slice.slots[1].floats()[0], v, 1e-6) << "what squares are like is no matter of staleness";
  EXPECT_NEAR(slice.values.floats()[0], -0.5 * (m + Fresh(s)) / std::sqrt(v), 1e-5) << beta1 << " " << beta2;
}

TEST(OptimizerStalenessTest, AStalePushStaysLongerInTheMeanOfAdam) {
  ExpectAdam(0.9, 0.999, 15, 0.1 / 16);
  ExpectAdam(0.9, 0.999, 63, 0.1 / 64);
  const double root = 2 * (1 - std::sqrt(0.95));
  ExpectAdam(0.9, 0.95, 15, root);  // no longer than its squares are remembered
  ExpectAdam(0.75, 0.5, 15, 0.25);  // as asked for, where that is longer anyway

  DenseSlice first = SliceWith(OptimizerKind::kAdam, {0});
  ASSERT_TRUE(MakeOptimizer(Spec(OptimizerKind::kAdam)).Apply(kKernelSlice, Floats({1}).floats(), 15, first));
  EXPECT_NEAR(first.values.floats()[0], -0.5 * (Share(16) / 16 + Fresh(16)), 1e-5) << "the bias is the plain mean's";
}

TEST(OptimizerStalenessTest, WhereGradientsBecomeSmallTheStepsOfAdamDoToo) {
  for (const double beta1 : {0.0, 0.9, 0.99}) {
    for (const double beta2 : {0.9, 0.95, 0.98, 0.999}) {
      for (const uint64_t staleness : {3, 15, 63, 1000}) {
        if (1 - beta1 < 2 * (1 - std::sqrt(beta2))) continue;  // the plain rule is near that itself
        TrainingSpec spec = Spec(OptimizerKind::kAdam);
        spec.optimizer.beta1 = beta1;
        spec.optimizer.beta2 = beta2;
        const SliceOptimizer adam = MakeOptimizer(spec);
        DenseSlice slice = SliceWith(OptimizerKind::kAdam, {0});
        ASSERT_TRUE(adam.Apply(kKernelSlice, Floats({1}).floats(), staleness, slice));
        const float first = std::abs(slice.values.floats()[0]);
        float before = slice.values.floats()[0];
        for (int i = 0; i < 1000; ++i) {
          ASSERT_TRUE(adam.Apply(kKernelSlice, Floats({0}).floats(), staleness, slice));
          const float now = slice.values.floats()[0];
          ASSERT_LE(std::abs(now - before), 2 * std::max(first, 0.5f)) << beta1 << " " << beta2 << " " << staleness;
          before = now;
        }
      }
    }
  }
}

TEST(OptimizerStalenessTest, TheDecayOfAdamWGoesAtThePaceOfItsSteps) {
  TrainingSpec spec = Spec(OptimizerKind::kAdamW);
  spec.optimizer.weight_decay = 0.1;
  for (const uint64_t staleness : {0, 1, 15, 63}) {
    DenseSlice slice = SliceWith(OptimizerKind::kAdamW, {2});
    ASSERT_TRUE(MakeOptimizer(spec).Apply(kKernelSlice, Floats({0}).floats(), staleness, slice));
    EXPECT_NEAR(slice.values.floats()[0], 2 - 0.5 * Share(1.0 + staleness) * 0.1 * 2, 1e-6) << staleness;
  }
}

TEST(OptimizerStalenessTest, AStaleSumCountsOneOfS) {
  JobSpec job;
  job.model.variables = {{.name = "mean", .shape = {1}, .trainable = false}};
  job.training.batch_size = 1;
  for (const OptimizerKind kind : {OptimizerKind::kMomentum, OptimizerKind::kSgd, OptimizerKind::kAdagrad}) {
    job.training.optimizer.kind = kind;
    DenseSlice sum = SliceWith(OptimizerKind::kSgd, {0});
    ASSERT_TRUE(
        SliceOptimizer(job, *GridOf(job.model), Plan(job, 100)).Apply(SliceId{0}, Floats({1}).floats(), 63, sum));
    EXPECT_NEAR(sum.values.floats()[0], -1.0 / 64, 1e-6);
  }
}

TEST(OptimizerStalenessTest, EachSliceOfAVariableCountsAsTheVariableDoes) {
  JobSpec job;
  job.model.variables = {{.name = "kernel", .shape = {512, 1024}}, {.name = "mean", .shape = {1}, .trainable = false}};
  job.training = Spec(OptimizerKind::kMomentum);
  job.training.batch_size = 1;
  const SliceOptimizer optimizer(job, *GridOf(job.model), Plan(job, 100));
  DenseSlice second = SliceWith(OptimizerKind::kMomentum, {0}), mean = SliceWith(OptimizerKind::kSgd, {0});
  ASSERT_TRUE(optimizer.Apply(SliceId{1}, Floats({1}).floats(), 15, second));
  ASSERT_TRUE(optimizer.Apply(SliceId{2}, Floats({1}).floats(), 15, mean));
  const double share = 4 * (Share(16) / 16 + Fresh(16) / 0.1);  // its slice has rows and columns
  EXPECT_NEAR(second.values.floats()[0], -0.5 * share, 1e-6);
  EXPECT_NEAR(mean.values.floats()[0], -1.0 / 16, 1e-6);
}

TEST(OptimizerStalenessTest, TheUsualStalenessIsThatOfPushesThatHadAnEffect) {
  DenseSlice slice = SliceWith(OptimizerKind::kSgd, {1});
  const SliceOptimizer sgd = MakeOptimizer(Spec(OptimizerKind::kSgd));
  ASSERT_TRUE(sgd.Apply(kKernelSlice, Floats({1}).floats(), 64, slice));
  EXPECT_EQ(slice.usual_staleness, UsualStaleness(0, 64, 1));
  EXPECT_FALSE(sgd.Apply(kKernelSlice, Floats({NAN}).floats(), 1000, slice));
  ASSERT_TRUE(sgd.Apply(kKernelSlice, Floats({1}).floats(), std::nullopt, slice));
  EXPECT_EQ(slice.usual_staleness, UsualStaleness(0, 64, 1)) << "and where it is not known it stays";
}

TEST(OptimizerStalenessTest, TheFirstPushesOfManyWorkersAreTakenForStale) {
  DenseSlice slice = SliceWith(OptimizerKind::kSgd, {0});
  TrainingSpec spec = Spec(OptimizerKind::kSgd);
  spec.staleness_method = StalenessMethod::kRate;
  ASSERT_TRUE(MakeOptimizer(spec, 16).Apply(kKernelSlice, Floats({1}).floats(), 0, slice));
  EXPECT_EQ(slice.usual_staleness, UsualStaleness(30 * kStalenessOne, 0, 31));
  EXPECT_NEAR(slice.values.floats()[0], -0.5 / 31, 0.001);
}

// Rows of inputs whose mean is not 0: all that is left of the step is what they do not share, and 1/256 of the rest.
TEST(OptimizerStalenessTest, AStaleStepCountsLessWhereItIsSteepest) {
  JobSpec job;
  job.model.inputs = {{"x", {16}}};
  job.model.layers = {{"y", {"x"}, DenseSpec{.units = 8}}};
  job.training = Spec(OptimizerKind::kMomentum);
  job.training.batch_size = 1;
  const SliceOptimizer optimizer(job, *GridOf(job.model), Plan(job, 100));
  std::vector<float> shared(16 * 8, 3), gradient = shared;
  gradient[5] += 0.5f;
  gradient[13] -= 0.5f;  // beside the shared direction
  DenseSlice slice = SliceWith(OptimizerKind::kMomentum, std::vector<float>(16 * 8));
  ASSERT_TRUE(optimizer.Apply(kKernelSlice, absl::MakeConstSpan(gradient), 15, slice));
  const double share = 0.5 * 4 * (Share(16) / 16 + Fresh(16) / 0.1);  // of a gradient, in the first step
  const absl::Span<const float> values = slice.values.floats();
  EXPECT_LT(std::abs(std::accumulate(values.begin(), values.end(), 0.0) / 128), 0.02 * share * 3) << "1/256, or so";
  EXPECT_NEAR(values[5] - values[13], -share, 0.2 * share);
  EXPECT_NEAR(slice.slots[0].floats()[0], 3 * 4 * Share(16) / 16, 1e-6) << "the momentum keeps all of it";

  DenseSlice fresh = SliceWith(OptimizerKind::kMomentum, std::vector<float>(16 * 8));
  ASSERT_TRUE(optimizer.Apply(kKernelSlice, absl::MakeConstSpan(gradient), 0, fresh));
  EXPECT_EQ(fresh.values.floats()[5], -0.5f * 3.5f) << "where nothing is stale it is the plain optimizer";
}

// All of the gradient lies along one direction. `fresh`: what the plain rule makes of it, in multiples of the rate;
// `share`: what of that is applied at a staleness of 15, beside what the direction costs.
void ExpectLessAlongTheLargestDirection(OptimizerKind kind, double fresh, double share,
                                        StalenessMethod method = StalenessMethod::kAuto) {
  JobSpec job;
  job.model.inputs = {{"x", {16}}};
  job.model.layers = {{"y", {"x"}, DenseSpec{.units = 8}}};
  job.training = Spec(kind);
  job.training.staleness_method = method;
  job.training.batch_size = 1;
  const SliceOptimizer optimizer(job, *GridOf(job.model), Plan(job, 100));
  const std::vector<float> gradient(16 * 8, 3);
  for (const auto& [staleness, counted] : {std::pair<uint64_t, double>{0, 1}, {15, share / 256}}) {
    DenseSlice slice = SliceWith(kind, std::vector<float>(16 * 8));
    ASSERT_TRUE(optimizer.Apply(kKernelSlice, absl::MakeConstSpan(gradient), staleness, slice));
    for (const float value : slice.values.floats()) EXPECT_NEAR(value, -0.5 * fresh * counted, 1e-4) << staleness;
  }
}

TEST(OptimizerStalenessTest, AStaleStepOfEachKindCountsLessAlongItsLargestDirection) {
  ExpectLessAlongTheLargestDirection(OptimizerKind::kAdam, 1, 4 * (Share(16) / 16 + Fresh(16)));
  ExpectLessAlongTheLargestDirection(OptimizerKind::kSgd, 3, 4 * (Share(16) / 160 + Fresh(16)));
  ExpectLessAlongTheLargestDirection(OptimizerKind::kSgd, 3, 10.0 / 16, StalenessMethod::kSteepRate);
  ExpectLessAlongTheLargestDirection(OptimizerKind::kRmsProp, 10, 10.0 / 16);  // of a mean with a hundredth of g^2
  ExpectLessAlongTheLargestDirection(OptimizerKind::kAdagrad, 1, 10.0 / 16);
  // -z / (beta + r) of a gradient that is 3/256, where the plain rule has 3: z is r times it, of which 10/16 are taken.
  ExpectLessAlongTheLargestDirection(OptimizerKind::kFtrl, 0.75, 10.0 / 16 * 3 / (1 + 3.0 / 256) / 0.75);
}

// Eight equal directions. None is more than all others are, and so the one that is found counts in full. Adagrad's
// counts less even so.
TEST(OptimizerStalenessTest, AStaleStepCountsInFullWhereNoDirectionOutweighsTheRest) {
  JobSpec job;
  job.model.inputs = {{"x", {8}}};
  job.model.layers = {{"y", {"x"}, DenseSpec{.units = 8}}};
  job.training.batch_size = 1;
  std::vector<float> gradient(8 * 8);
  for (size_t i = 0; i < 8; ++i) gradient[i * 9] = 3;
  for (const auto& [kind, least] : {std::pair{OptimizerKind::kRmsProp, 1.0}, {OptimizerKind::kAdagrad, 1.0 / 256}}) {
    job.training = Spec(kind);
    const SliceOptimizer optimizer(job, *GridOf(job.model), Plan(job, 100));
    DenseSlice plain = SliceWith(kind, std::vector<float>(8 * 8)), stale = plain;
    ASSERT_TRUE(optimizer.Apply(kKernelSlice, absl::MakeConstSpan(gradient), 0, plain));
    ASSERT_TRUE(optimizer.Apply(kKernelSlice, absl::MakeConstSpan(gradient), 15, stale));
    double least_seen = 1;
    for (size_t i = 0; i < 64; i += 9) {
      least_seen = std::min<double>(least_seen, stale.values.floats()[i] / plain.values.floats()[i]);
    }
    EXPECT_NEAR(least_seen, 10.0 / 16 * least, 1e-4);
  }
}

TEST(OptimizerStalenessTest, AStaleStepOfFewRowsCountsLessAsAWhole) {
  DenseSlice slice = SliceWith(OptimizerKind::kMomentum, {0, 0, 0, 0});
  ASSERT_TRUE(
      MakeOptimizer(Spec(OptimizerKind::kMomentum)).Apply(kKernelSlice, Floats({1, 1, 1, 1}).floats(), 15, slice));
  EXPECT_NEAR(slice.values.floats()[0], -0.5 * (Share(16) / 16 + Fresh(16) / 0.1), 1e-6);
  for (const OptimizerKind falls : {OptimizerKind::kAdagrad, OptimizerKind::kFtrl}) {
    DenseSlice fresh = SliceWith(falls, {0, 0, 0, 0}), stale = fresh;
    ASSERT_TRUE(MakeOptimizer(Spec(falls)).Apply(kKernelSlice, Floats({1, 1, 1, 1}).floats(), 0, fresh));
    ASSERT_TRUE(MakeOptimizer(Spec(falls)).Apply(kKernelSlice, Floats({1, 1, 1, 1}).floats(), 15, stale));
    EXPECT_EQ(ValuesOf(stale.values), ValuesOf(fresh.values)) << "its rates fall by themselves";
  }
}

TEST(OptimizerStalenessTest, FourRowsAndColumnsHaveADirection) {
  EXPECT_TRUE(HasDirections({.columns = 4}, 16));
  EXPECT_FALSE(HasDirections({.columns = 4}, 15));
  EXPECT_FALSE(HasDirections({.columns = 3}, 3000));
}

}  // namespace
}  // namespace downpour
