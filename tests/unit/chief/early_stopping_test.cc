#include "chief/known/early_stopping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>

#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TrainingSpec By(const std::string& metric, double min_delta) {
  TrainingSpec training;
  training.stop_early = StopEarlySpec{.metric = metric, .patience = 2, .min_delta = min_delta};
  return training;
}
const TrainingSpec kByLoss = By("loss", 0.125), kByAccuracy = By("accuracy", 0);

TEST(EarlyStopTest, CountsEvaluationsSinceTheBest) {
  EarlyStop early;
  EXPECT_FALSE(UsesUpPatience(kByLoss, 1.0, 1, &early));
  EXPECT_FALSE(UsesUpPatience(kByLoss, 0.875, 2, &early)) << "by minDelta is not by more";
  EXPECT_FALSE(UsesUpPatience(kByLoss, 0.75, 3, &early));
  EXPECT_EQ(early, (EarlyStop{.evaluated = 3, .best = 0.75, .best_epoch = 3}));
  EXPECT_FALSE(UsesUpPatience(kByLoss, 2.0, 4, &early));
  EXPECT_TRUE(UsesUpPatience(kByLoss, 0.7, 5, &early));
}

TEST(EarlyStopTest, MoreIsBetterOfAccuracy) {
  EarlyStop early;
  EXPECT_FALSE(UsesUpPatience(kByAccuracy, 0.5, 1, &early));
  EXPECT_FALSE(UsesUpPatience(kByAccuracy, 0.6, 2, &early));
  EXPECT_FALSE(UsesUpPatience(kByAccuracy, 0.6, 3, &early));
  EXPECT_TRUE(UsesUpPatience(kByAccuracy, 0.1, 4, &early));
}

TEST(EarlyStopTest, GoesByWhatPythonCodeSaysIsBetter) {
  TrainingSpec training = By("recall", 0);
  training.metrics = {{.kind = MetricKind::kRatio, .name = "recall", .better = Better::kMore}};
  EarlyStop early;
  EXPECT_FALSE(UsesUpPatience(training, 0.5, 1, &early));
  EXPECT_FALSE(UsesUpPatience(training, 0.6, 2, &early));
  EXPECT_EQ(early.best, 0.6);
  training.metrics[0].better = Better::kLess;
  EXPECT_FALSE(UsesUpPatience(training, 0.7, 3, &early));
  EXPECT_TRUE(UsesUpPatience(training, 0.8, 4, &early));
}

TEST(EarlyStopTest, AnEpochCountsOnce) {
  EarlyStop early;
  EXPECT_FALSE(UsesUpPatience(kByLoss, 1.0, 2, &early));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(UsesUpPatience(kByLoss, 1.0, 2, &early));
  EXPECT_FALSE(UsesUpPatience(kByLoss, 0.1, 1, &early));
  EXPECT_EQ(early.best, 1.0);
}

TEST(EarlyStopTest, WhatIsNotFiniteIsNeverTheBest) {
  EarlyStop early;
  EXPECT_FALSE(UsesUpPatience(kByLoss, std::nan(""), 1, &early));
  EXPECT_EQ(early.best, std::nullopt);
  EXPECT_FALSE(UsesUpPatience(kByLoss, 9.0, 2, &early));
  EXPECT_EQ(early.best, 9.0);
  EXPECT_FALSE(UsesUpPatience(kByLoss, -INFINITY, 3, &early));
  EXPECT_TRUE(UsesUpPatience(kByLoss, std::nan(""), 4, &early));
}

// Six epochs of three leases. An evaluation after each; it is always the same.
class StopEarlyTest : public ChiefRoleTest {
 protected:
  static std::vector<std::string> Settings(const std::string& stop) {
    return {"training.epochs=6", "training.stopEarly=" + stop};
  }
  void TrainOneEpoch() {
    FakeMember& worker = cluster->worker[0];
    for (int i = 0; i < 3; ++i) {
      for (const LeaseId lease : cluster->Ask(worker, 1)) cluster->Finish(worker, lease);
    }
    cluster->Forget();
    cluster->Ask(worker, 1, Held());
    cluster->Evaluate(worker);
  }
  std::vector<LeaseId> Held() {
    std::vector<LeaseId> held;
    for (const auto& [lease, worker] : cluster->role->holders()) held.push_back(lease);
    return held;
  }
  // What was granted while the evaluation was asked for, and all that still is.
  void FinishTheRest() {
    for (const LeaseId lease : Held()) cluster->Finish(cluster->worker[0], lease);
    TrainAndEvaluate();
    cluster->Wait(100ms);
  }
  void RestartChief(const std::string& stop) {
    cluster->Wait(100ms);
    auto next = std::make_unique<ChiefHarness>(SmallJob(Settings(stop)), false, cluster->disk);
    next->now = cluster->now;
    const auto take = [](const FakeMember& before, FakeMember& after) {
      after.join = before.join;
      after.join.run = ChiefHarness::kRun;
      after.join.was = before.id;
      after.slices = before.slices;
    };
    for (int i = 0; i < 2; ++i) {
      take(cluster->ps[i], next->ps[i]);
      take(cluster->worker[i], next->worker[i]);
    }
    cluster = std::move(next);
    cluster->Start();
    cluster->RunToRunning();
  }
  std::string Stopped() { return cluster->Status()["stoppedEarly"]; }
};

TEST_F(StopEarlyTest, EndsWithTheEpochsThatHaveBegunByTheSamePath) {
  StartRunning(Settings("{metric: accuracy, patience: 1}"));
  TrainOneEpoch();
  EXPECT_EQ(Stopped(), "");
  TrainOneEpoch();
  EXPECT_EQ(Stopped(),
            "1 evaluation brought no better accuracy, the best accuracy was 0.5 after 1 epoch; the job ends with 3 "
            "epochs of 6");
  EXPECT_EQ(cluster->role->state(), JobState::kRunning) << "the third epoch has begun";
  EXPECT_EQ(cluster->Status()["progress"]["leases"], 9);
  FinishTheRest();
  EXPECT_EQ(cluster->role->state(), JobState::kSucceeded) << cluster->Status()["errorMessage"];
  EXPECT_EQ(cluster->role->committed().Count(), 9u) << "no other lease is called committed";
  EXPECT_EQ(Summary()["stoppedEarly"], Stopped());
  EXPECT_EQ(Summary()["epochs"], 3);
  EXPECT_EQ(cluster->Status()["evaluation"]["epoch"], 3);
  EXPECT_EQ(cluster->Status()["checkpoint"]["leasesCommitted"], 9);
}

// Of 40 epochs three are not yet enough to tell, but they become all that the job has.
TEST_F(StopEarlyTest, ItsLastEvaluationIsJudgedThoughOfFewEpochsOfItsFile) {
  std::vector<std::string> settings = Settings("{metric: loss, patience: 1}");
  settings.push_back("training.epochs=40");
  settings.push_back("model.layers.0.dense.units=2");
  StartRunning(settings);
  cluster->evaluated_loss = cluster->trained_loss = 0.7;  // of two classes, half of which are right
  TrainOneEpoch();
  TrainOneEpoch();
  EXPECT_EQ(cluster->Status()["diverging"], "") << "it has only begun";
  FinishTheRest();
  ASSERT_EQ(cluster->role->state(), JobState::kSucceeded) << cluster->Status()["errorMessage"];
  EXPECT_EQ(Summary()["epochs"], 3);
  EXPECT_THAT(Summary()["diverging"], HasSubstr("that of a guess among 2 classes"));
}

TEST_F(StopEarlyTest, WithMinDeltaItDoesNotCallTheBestWhatAnotherMayBeat) {
  StartRunning(Settings("{metric: loss, patience: 1, minDelta: 0.1}"));
  TrainOneEpoch();
  cluster->evaluated_loss = 0.45;  // better, by less
  TrainOneEpoch();
  EXPECT_EQ(Stopped(),
            "1 evaluation brought no loss that is better by more than minDelta (0.1) than 0.5 after 1 epoch; the job "
            "ends with 3 epochs of 6");
}

TEST_F(StopEarlyTest, WithoutTheKeyAllEpochsAreTrained) {
  StartRunning({"training.epochs=6"});
  for (int i = 0; i < 3; ++i) TrainOneEpoch();
  EXPECT_EQ(Stopped(), "");
  EXPECT_EQ(cluster->role->goal(), 18u);
}

TEST_F(StopEarlyTest, WhatBecomesBetterGoesOn) {
  StartRunning(Settings("{patience: 1}"));
  for (int i = 0; i < 3; ++i) {
    cluster->evaluated_loss = 0.5 - 0.1 * i;
    TrainOneEpoch();
  }
  EXPECT_EQ(Stopped(), "");
}

TEST_F(StopEarlyTest, ALaterChiefCountsOnAndKnowsThatItIsOver) {
  StartRunning(Settings("{patience: 2}"));
  TrainOneEpoch();
  TrainOneEpoch();
  RestartChief("{patience: 2}");
  EXPECT_EQ(Stopped(), "");
  TrainOneEpoch();
  EXPECT_THAT(Stopped(), HasSubstr("2 evaluations brought no better loss"));
  const uint64_t goal = cluster->role->goal();
  ASSERT_LT(goal, 18u);
  RestartChief("{patience: 2}");
  EXPECT_EQ(cluster->role->goal(), goal);
  EXPECT_THAT(Stopped(), Not(IsEmpty()));
  FinishTheRest();
  EXPECT_EQ(cluster->role->state(), JobState::kSucceeded);
  EXPECT_EQ(cluster->role->committed().Count(), goal);
}

TEST_F(StopEarlyTest, AnEpochOfWhichOneSliceHasALeaseHasBegun) {
  StartRunning(Settings("{patience: 1}"));
  TrainOneEpoch();
  cluster->ps[0].slices.at(SliceId{0}).finished.Insert(9);  // the first of the fourth, under an earlier chief
  RestartChief("{patience: 1}");
  TrainOneEpoch();
  EXPECT_THAT(Stopped(), HasSubstr("the job ends with 4 epochs of 6"));
}

}  // namespace
}  // namespace downpour
