#include "ps/staleness_rule.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "schema/checkpoint_format.h"

namespace downpour {
namespace {

StalenessRule RuleOf(StalenessMethod method, OptimizerKind optimizer = OptimizerKind::kMomentum) {
  TrainingSpec training;
  training.staleness_method = method;
  training.optimizer.kind = optimizer;
  return StalenessRule(training, 1);
}

constexpr StalenessMethod kAllMethods[] = {StalenessMethod::kAuto, StalenessMethod::kNone, StalenessMethod::kRate,
                                           StalenessMethod::kSteepRate, StalenessMethod::kSlowMomentum};

// Of a slice that is a matrix of some rows and columns.
Damping DampingOf(const StalenessRule& rule, uint64_t staleness, uint64_t usual = 0) {
  return rule.Of(staleness, usual, {});
}

TEST(StalenessRuleTest, WhereNothingIsStaleEachMethodIsThePlainOptimizer) {
  for (const StalenessMethod method : kAllMethods) EXPECT_EQ(DampingOf(RuleOf(method), 0, 0), Damping());
}

TEST(StalenessRuleTest, NoneIsThePlainOptimizerWhateverIsStale) {
  EXPECT_EQ(DampingOf(RuleOf(StalenessMethod::kNone), 1000, 1000 * kStalenessOne), Damping());
}

TEST(StalenessRuleTest, TheFactorsAreThoseOfTheHeader) {
  const StalenessRule steep = RuleOf(StalenessMethod::kSteepRate), slow = RuleOf(StalenessMethod::kSlowMomentum);
  const double root = std::sqrt(10.0);
  EXPECT_EQ(DampingOf(RuleOf(StalenessMethod::kRate), 15, 0), (Damping{.share = 1.0 / 16}));
  EXPECT_EQ(DampingOf(steep, 3, 0), (Damping{.share = 1, .steep_least = 1.0 / 16}));
  EXPECT_EQ(DampingOf(steep, 15, 0), (Damping{.share = 10.0 / 16, .steep_least = 1.0 / 256}));
  EXPECT_EQ(DampingOf(slow, 3, 0),
            (Damping{.share = 1, .memory = 4, .fresh = 0.75 * 0.1 * 2, .steep_least = 1.0 / 16}));
  EXPECT_EQ(DampingOf(slow, 255, 0), (Damping{.share = 10.0 / 256,
                                              .memory = 256,
                                              .fresh = 10.0 / 256 * (1 - 1.0 / 256) * 0.1 * root,
                                              .steep_least = 1.0 / 65536}));
}

TEST(StalenessRuleTest, OfFewRowsAndColumnsAllCountsLess) {
  const SliceTraits few = {.has_directions = false}, falls = {.has_directions = false, .rates_fall = true};
  EXPECT_EQ(RuleOf(StalenessMethod::kSteepRate).Of(15, 0, few),
            (Damping{.share = 10.0 / 64, .steep_least = 1.0 / 256}));
  EXPECT_EQ(RuleOf(StalenessMethod::kSteepRate).Of(15, 0, falls), Damping()) << "its rates fall by themselves";
  EXPECT_EQ(RuleOf(StalenessMethod::kSlowMomentum).Of(3, 0, few),
            (Damping{.share = 0.5, .memory = 4, .fresh = 0.5 * 0.75 * 0.1 * 2, .steep_least = 1.0 / 16}));
}

TEST(StalenessRuleTest, WhereRatesFallTheLargestDirectionNeverCountsMore) {
  EXPECT_EQ(RuleOf(StalenessMethod::kSteepRate).Of(15, 0, {.rates_fall = true}),
            (Damping{.share = 10.0 / 16, .steep_least = 1.0 / 256, .steep_most = 1.0 / 256}));
}

TEST(StalenessRuleTest, OfWhatIsNotTrainedEachChangeCountsOneOfS) {
  for (const StalenessMethod method : {StalenessMethod::kSteepRate, StalenessMethod::kSlowMomentum}) {
    const SliceTraits statistic = {.is_trained = false, .has_directions = false};
    EXPECT_EQ(RuleOf(method).Of(15, 0, statistic), (Damping{.share = 1.0 / 16}));
  }
}

TEST(StalenessRuleTest, AutoGoesByTheOptimizer) {
  const std::pair<StalenessMethod, std::vector<OptimizerKind>> methods[] = {
      {StalenessMethod::kSlowMomentum,
       {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov, OptimizerKind::kAdam,
        OptimizerKind::kAdamW}},
      {StalenessMethod::kSteepRate, {OptimizerKind::kAdagrad, OptimizerKind::kRmsProp, OptimizerKind::kFtrl}}};
  for (const auto& [method, kinds] : methods) {
    for (const OptimizerKind kind : kinds) {
      EXPECT_EQ(DampingOf(RuleOf(StalenessMethod::kAuto, kind), 7, 0), DampingOf(RuleOf(method), 7, 0));
    }
  }
}

TEST(StalenessRuleTest, WithLocalStepsTheRateShortensTheMomentumAndRaisesWhatIsBeside) {
  TrainingSpec training;
  training.local_steps = 4;
  for (const OptimizerKind outer : {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov}) {
    training.outer = OuterDefaultsOf(outer);
    const StalenessRule rule(training, 1);
    EXPECT_EQ(DampingOf(rule, 0, 0), Damping());
    EXPECT_EQ(DampingOf(rule, 15, 0), (Damping{.share = 1.0 / 256, .memory = 1.0 / 16, .beside = 8}));
    EXPECT_EQ(DampingOf(rule, 63, 0), (Damping{.share = 1.0 / 4096, .memory = 1.0 / 64, .beside = 8}))
        << "beyond what was tried all of it counts 1/s of that";
  }
}

TEST(StalenessRuleTest, APushThatHappensToBeFreshCountsAsItsNeighboursDo) {
  for (const StalenessMethod method : kAllMethods) {
    EXPECT_EQ(DampingOf(RuleOf(method), 0, 7 * kStalenessOne), DampingOf(RuleOf(method), 7, 0));
    EXPECT_EQ(DampingOf(RuleOf(method), 9, 7 * kStalenessOne), DampingOf(RuleOf(method), 9, 0));
  }
}

TEST(StalenessRuleTest, ThereIsAnAnswerForWhateverAWorkerSays) {
  for (const StalenessMethod method : kAllMethods) {
    const Damping damping = DampingOf(RuleOf(method), std::numeric_limits<uint64_t>::max(), kMostUsualStaleness);
    EXPECT_TRUE(std::isfinite(damping.memory) && damping.share > 0 && damping.share <= 1);
  }
}

TEST(StalenessRuleTest, BeforeTheFirstPushTheUsualStalenessIsThatOfAllWorkers) {
  TrainingSpec training;
  EXPECT_EQ(StalenessRule(training, 16).UsualAfter({0, 0}, std::nullopt), 30 * kStalenessOne);
  EXPECT_EQ(StalenessRule(training, 16).UsualAfter({0, 0}, 0), UsualStaleness(30 * kStalenessOne, 0, 31));
  EXPECT_EQ(StalenessRule(training, 16).UsualAfter({1, 7}, std::nullopt), 7u) << "then its own";
  EXPECT_EQ(StalenessRule(training, 1).UsualAfter({0, 0}, 0), 0u) << "one worker is never stale";
  training.consistency = Consistency::kSync;
  EXPECT_EQ(StalenessRule(training, 16).UsualAfter({0, 0}, std::nullopt), 0u);
}

TEST(StalenessRuleTest, WhatIsExpectedWeighsAsMuchAsThePushesThatItExpects) {
  for (const int64_t workers : {2, 4, 16}) {
    const StalenessRule rule({}, workers);
    const auto expected = static_cast<uint64_t>(2 * (workers - 1));
    uint64_t usual = 0;
    for (uint64_t version = 0; version < expected; ++version) usual = rule.UsualAfter({version, usual}, 0);
    EXPECT_NEAR(static_cast<double>(usual) / kStalenessOne, static_cast<double>(expected) / 2, 0.01) << workers;
  }
}

constexpr uint64_t kMany = 1000;

TEST(UsualStalenessTest, IsTheMeanOfTheLastPushes) {
  EXPECT_EQ(UsualStaleness(0, 0, kMany), 0u);
  EXPECT_EQ(UsualStaleness(8 * kStalenessOne, 16, kMany), 8 * kStalenessOne + 8 * kStalenessOne / 64);
  uint64_t usual = 0;
  for (int i = 0; i < 2000; ++i) usual = UsualStaleness(usual, 10, kMany);
  EXPECT_NEAR(static_cast<double>(usual), 10.0 * kStalenessOne, 64);
  for (int i = 0; i < 2000; ++i) usual = UsualStaleness(usual, 0, kMany);
  EXPECT_LT(usual, 64u);
}

// As by a worker that stood still while others pushed.
TEST(UsualStalenessTest, IsHardlyChangedByOnePushOfLongAgo) {
  for (const uint64_t usual : {0, 1, 15}) {
    const uint64_t most = 2 * usual + 4;
    EXPECT_EQ(UsualStaleness(usual * kStalenessOne, 5000, kMany), UsualStaleness(usual * kStalenessOne, most, kMany));
    EXPECT_LT(UsualStaleness(usual * kStalenessOne, most - 1, kMany),
              UsualStaleness(usual * kStalenessOne, most, kMany));
  }
  uint64_t rising = 0;
  for (int i = 0; i < 300; ++i) rising = UsualStaleness(rising, 31, kMany);
  EXPECT_GT(rising, 30 * kStalenessOne) << "workers that join are soon counted";
}

TEST(UsualStalenessTest, OfFewPushesIsTheMeanOfAll) {
  uint64_t usual = 0;
  for (uint64_t i = 1; i <= 9; ++i) usual = UsualStaleness(usual, i, i);
  EXPECT_NEAR(static_cast<double>(usual) / kStalenessOne, 5, 0.01);
}

TEST(UsualStalenessTest, StaysWithinWhatARecordHolds) {
  EXPECT_LE(UsualStaleness(kMostUsualStaleness, std::numeric_limits<uint64_t>::max(), kMany), kMostUsualStaleness);
  EXPECT_LE(UsualStaleness(0, std::numeric_limits<uint64_t>::max(), 1), kMostUsualStaleness);
}

// What the factors are for: s workers take turns at one number w, whose loss is w^2 / 2. Each gradient is that of s - 1
// updates ago. Returns how far w is from 0 at most in the last tenth of the updates, from 1.
double SwingOf(StalenessMethod method, OptimizerKind kind, double rate, uint64_t s, int updates = 4000) {
  TrainingSpec training;
  training.staleness_method = method;
  training.optimizer = {.kind = kind, .learning_rate = rate, .momentum = 0.9};
  const StalenessRule rule(training, static_cast<int64_t>(s));
  const OptimizerSpec spec = training.servers_optimizer();
  std::array<float, kMostArrays> numbers = {1};
  std::vector<UpdatedArray> arrays;
  for (int i = 0; i <= SlotCount(spec.kind); ++i) arrays.push_back({&numbers[i], &numbers[i]});
  std::deque<float> seen(s, 1.0f);
  Pushes pushes;
  double most = 0;
  for (int i = 0; i < updates; ++i) {
    const float gradient = seen.front();
    seen.pop_front();
    pushes.usual = rule.UsualAfter(pushes, s - 1);
    const Damping damping = rule.Of(s - 1, pushes.usual, {.has_directions = false});
    if (!ApplyUpdate(UpdateFor(spec, damping, ++pushes.version, 1), absl::Span<const float>(&gradient, 1), arrays)) {
      return std::numeric_limits<double>::infinity();
    }
    seen.push_back(numbers[0]);
    if (i >= updates - updates / 10) most = std::max(most, static_cast<double>(std::abs(numbers[0])));
  }
  return most;
}

TEST(StalenessRuleTest, WorkersThatTakeTurnsSettleAtTheRateOfOne) {
  for (const auto& [kind, rate] : {std::pair{OptimizerKind::kMomentum, 0.1}, {OptimizerKind::kSgd, 1.0}}) {
    EXPECT_LT(SwingOf(StalenessMethod::kNone, kind, rate, 1), 1e-3) << "one worker bears the rate";
    for (const uint64_t workers : {4, 8, 16, 32, 64}) {
      EXPECT_GT(SwingOf(StalenessMethod::kNone, kind, rate, workers), 1e3) << workers;
      EXPECT_LT(SwingOf(StalenessMethod::kAuto, kind, rate, workers), 1e-3) << workers;
    }
  }
}

}  // namespace
}  // namespace downpour
