#include "model/local_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace downpour {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr LeaseId kLease{0};

Payload Values(const std::vector<float>& numbers) { return Payload::CopyOf(numbers.data(), numbers.size() * 4); }

// Two variables of one slice each: w is trained, s is a statistic. Leases of four batches, steps of two.
class LocalStepsTest : public testing::Test {
 protected:
  void Use(const OptimizerSpec& optimizer, WireFormat wire = WireFormat::kFp32) {
    JobSpec job;
    job.model.variables = {{.name = "w", .shape = {2}}, {.name = "s", .shape = {1}, .trainable = false}};
    job.training.batch_size = 1;
    job.training.lease_batches = 4;
    job.training.local_steps = 2;
    job.training.wire = wire;
    job.training.optimizer = optimizer;
    grid_ = GridOf(job.model, wire).value();
    local_.emplace(job, &grid_, Plan(job, 16));
  }
  void Pull(const std::vector<float>& w, float s) {
    local_->Set(SliceId{0}, Values(w));
    local_->Set(SliceId{1}, Values({s}));
  }
  // What became of a whole step.
  struct Outcome {
    LeaseId lease{};
    Step step = 0;
    bool counted = false;
  };
  void Begin(Step step, const std::vector<Outcome>& outcomes = {}, LeaseId lease = kLease) {
    std::vector<Settled> settled;
    for (const Outcome& outcome : outcomes) {
      for (const Slice& slice : grid_.slices)
        settled.push_back({outcome.lease, outcome.step, slice.id, outcome.counted});
    }
    Begin(step, std::move(settled), lease);
  }
  void Begin(Step step, std::vector<Settled> settled, LeaseId lease) {
    local_->Begin({.lease = lease, .step = step, .updates = {}, .settled = std::move(settled)});
  }
  void Take(const std::vector<float>& w, float s = 0) { local_->Take({{0, Values(w)}, {1, Values({s})}}); }
  std::vector<std::vector<float>> End() {
    std::vector<std::vector<float>> all;
    for (const auto& [variable, values] : local_->End()) {
      all.emplace_back(values.floats().begin(), values.floats().end());
    }
    return all;
  }
  // What one step with a gradient of 1 takes: the momentum before it, times 0.5, and 1.
  float StepOfOne(Step step, const std::vector<Outcome>& outcomes = {}, LeaseId lease = kLease) {
    Begin(step, outcomes, lease);
    return TakeOne();
  }
  float TakeOne() {
    Take({1, 1});
    return End()[0][0];
  }
  // The same where slice by slice is settled.
  float StepOfOneBehind(std::vector<Settled> settled, Step step) {
    Begin(step, std::move(settled), kLease);
    return TakeOne();
  }

  SliceGrid grid_;
  std::optional<LocalSteps> local_;
  const OptimizerSpec momentum_ = {.kind = OptimizerKind::kMomentum, .learning_rate = 1, .momentum = 0.5};
};

TEST_F(LocalStepsTest, EachBatchIsAStepOnWhatTheOneBeforeLeft) {
  Use(momentum_);
  Pull({10, 20}, 5);
  Begin(1);
  Take({1, 2}, 0.5);
  EXPECT_THAT(local_->values(0), ElementsAre(9, 18));
  EXPECT_THAT(local_->values(1), ElementsAre(4.5)) << "a statistic changes by what is said";
  Take({1, 2}, 0.5);
  EXPECT_THAT(local_->values(0), ElementsAre(7.5, 15)) << "its velocity was 1, and is 1.5";
  EXPECT_THAT(End(), ElementsAre(ElementsAre(2.5, 5), ElementsAre(1)));
  local_->Reset();
  EXPECT_THAT(local_->values(0), ElementsAre(10, 20)) << "an evaluation is of what was pulled";
}

TEST_F(LocalStepsTest, BeginsWithWhatWasPulledWhateverItMadeOfItBefore) {
  Use({.kind = OptimizerKind::kSgd, .learning_rate = 1});
  Pull({10, 20}, 5);
  Begin(1);
  Take({1, 1});
  End();
  local_->Set(SliceId{1}, Values({7}));  // the other slice has not changed meanwhile
  Begin(2);
  EXPECT_THAT(local_->values(0), ElementsAre(10, 20));
  EXPECT_THAT(local_->values(1), ElementsAre(7));
}

TEST_F(LocalStepsTest, ItsMemoryMovesOnWithStepsThatCounted) {
  Use(momentum_);
  EXPECT_EQ(StepOfOne(1), 1);
  EXPECT_EQ(StepOfOne(2, {{kLease, 1, true}}), 1.5);
  EXPECT_EQ(StepOfOne(1, {{kLease, 2, true}}, LeaseId{1}), 1.75);
}

TEST_F(LocalStepsTest, ItsMemoryStaysWhereAStepDidNotCount) {
  Use(momentum_);
  EXPECT_EQ(StepOfOne(1), 1);
  EXPECT_EQ(StepOfOne(2, {{kLease, 1, true}}), 1.5);
  EXPECT_EQ(StepOfOne(1, {{kLease, 2, false}}, LeaseId{1}), 1.5) << "as if step 2 had not been";
  EXPECT_EQ(StepOfOne(2, {{LeaseId{7}, 1, true}}, LeaseId{1}), 1.75) << "nothing is known of the one before";
  // Computed from one that turns out not to have counted: both are forgotten.
  EXPECT_EQ(StepOfOne(1, {{LeaseId{1}, 1, false}}, LeaseId{2}), 1.5);
}

// Of two leases the later one's steps may be known first.
TEST_F(LocalStepsTest, ItsMemoryMovesOnInTheOrderOfComputing) {
  Use(momentum_);
  EXPECT_EQ(StepOfOne(1), 1);
  EXPECT_EQ(StepOfOne(1, {}, LeaseId{1}), 1.5);
  EXPECT_EQ(StepOfOne(2, {{LeaseId{1}, 1, true}}, LeaseId{1}), 1.75);
  EXPECT_EQ(StepOfOne(2, {{kLease, 1, false}}), 1) << "all of them were on top of one that was in vain";
}

TEST_F(LocalStepsTest, AStepCountsOnceEverySliceCountedIt) {
  Use(momentum_);
  EXPECT_EQ(StepOfOne(1), 1);
  EXPECT_EQ(StepOfOneBehind({{kLease, 1, SliceId{0}, true}}, 2), 1.5) << "the other slice has not said";
  EXPECT_EQ(StepOfOneBehind({{kLease, 1, SliceId{1}, false}}, 1), 1) << "it was in vain there";
}

// Slice 0 takes what was computed first, and slice 1 only what was computed again.
TEST_F(LocalStepsTest, AStepThatIsComputedAgainIsTheSameAndCountsOnlyAsAWhole) {
  Use(momentum_);
  EXPECT_EQ(StepOfOne(1), 1);
  EXPECT_EQ(StepOfOneBehind({{kLease, 1, SliceId{1}, false}}, 1), 1) << "the first time does not count for it";
  EXPECT_EQ(StepOfOneBehind({{kLease, 1, SliceId{0}, false}, {kLease, 1, SliceId{0}, true}}, 2), 1);
  EXPECT_EQ(StepOfOneBehind({{kLease, 1, SliceId{1}, true}, {kLease, 2, SliceId{0}, true}}, 3), 1.5);
  EXPECT_EQ(StepOfOneBehind({{kLease, 2, SliceId{1}, true}, {kLease, 3, SliceId{0}, false}}, 4), 1.5);
}

TEST_F(LocalStepsTest, WhatIsNotFiniteIsPushedAsSuchAndForgotten) {
  Use(momentum_);
  Pull({1, 1}, 0);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::max()}) {
    Begin(1);
    Take({1, bad});
    Take({1, 1});
    for (const std::vector<float>& of_variable : End()) {
      EXPECT_THAT(of_variable, Each(::testing::Truly([](float x) { return std::isnan(x); })));
    }
  }
  Begin(2, {{kLease, 1, true}});
  Take({1, 1});
  EXPECT_THAT(End()[0], ElementsAre(1, 1));
}

TEST_F(LocalStepsTest, GradientsAreClippedButNotStatistics) {
  Use({.kind = OptimizerKind::kSgd, .learning_rate = 1, .clip_norm = 5});
  Pull({0, 0}, 0);
  Begin(1);
  Take({6, 8}, 100);
  Take({0, 0}, 0);
  const auto taken = End();
  EXPECT_NEAR(taken[0][0], 3, 1e-5);
  EXPECT_NEAR(taken[0][1], 4, 1e-5);
  EXPECT_THAT(taken[1], ElementsAre(100));
}

// 16 batches: step 2 of lease 1 holds those of the numbers 6 and 7.
TEST_F(LocalStepsTest, TheScheduleGoesByTheBatchsNumberInThePlan) {
  OptimizerSpec optimizer = {.kind = OptimizerKind::kSgd, .learning_rate = 1};
  optimizer.schedule = {.warmup_steps = 8};
  Use(optimizer);
  for (int time = 0; time < 2; ++time) {
    Begin(2, std::vector<Outcome>(), LeaseId{1});
    Take({1, 0});
    EXPECT_THAT(local_->values(0), ElementsAre(-7.0f / 8, 0));
    Take({1, 0});
    EXPECT_THAT(local_->values(0), ElementsAre(-15.0f / 8, 0));
    End();
  }
}

// Its values follow from its sums alone: it must not bring back what it once made of them.
TEST_F(LocalStepsTest, FtrlGoesOnFromWhatOthersMadeOfTheValues) {
  Use({.kind = OptimizerKind::kFtrl, .learning_rate = 0.5, .beta = 1, .l1 = 0.25, .l2 = 0.5});
  Pull({1, -2}, 0);
  Begin(1);
  Take({0.5, 0.5});
  End();
  Pull({3, 0}, 0);
  Begin(2, {{kLease, 1, true}});
  Take({0, 0});
  EXPECT_NEAR(local_->values(0)[0], 3, 1e-6);
  EXPECT_EQ(local_->values(0)[1], 0);
}

TEST_F(LocalStepsTest, ValuesMayTravelAsBf16) {
  Use({.kind = OptimizerKind::kSgd, .learning_rate = 1}, WireFormat::kBf16);
  const std::vector<float> numbers = {1.5f, -3};
  Payload rounded = Payload::Allocate(4);
  RoundToBf16(numbers, rounded.mutable_as<Bf16>().data());
  local_->Set(SliceId{0}, rounded);
  Begin(1);
  EXPECT_THAT(local_->values(0), ElementsAre(1.5f, -3));
}

}  // namespace
}  // namespace downpour
