#include "chief/known/learning_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>

#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {
namespace {

using Trouble = LearningWatch::Trouble;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kTen = 2.302585;  // ln 10

// Each is one reading.
LearningWatch With(std::initializer_list<double> losses, LearningWatch watch) {
  for (const double loss : losses) watch.ReportLease(loss * 1000, 1000);
  return watch;
}
Trouble AfterReadings(const LearningWatch& watch, std::initializer_list<double> losses) {
  return With(losses, watch).trouble();
}

class LearningWatchTest : public ::testing::Test {
 protected:
  const LearningWatch of_ten_classes{4000, 10, 10};
  const LearningWatch of_no_classes{4000, 10, 0};
};

TEST_F(LearningWatchTest, ALossThatIsNotFiniteIsSeenAtOnceAndUntilAFiniteReading) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    LearningWatch watch = of_ten_classes;
    watch.ReportLease(1, 1);
    EXPECT_EQ(watch.trouble(), Trouble::kNone);
    watch.ReportLease(bad, 1);
    EXPECT_EQ(watch.trouble(), Trouble::kNotFinite);
    watch.ReportLease(1000, 998);
    EXPECT_EQ(watch.trouble(), Trouble::kNotFinite) << "of a whole reading";
    watch.ReportLease(1000, 1000);
    EXPECT_EQ(watch.trouble(), Trouble::kNone);
  }
}

TEST_F(LearningWatchTest, ALossThatStaysAtThatOfAGuessIsSeenAfterFiveReadings) {
  EXPECT_EQ(AfterReadings(of_ten_classes, {2.31, 2.304, 2.303, 2.306}), Trouble::kNone);
  EXPECT_EQ(AfterReadings(of_ten_classes, {2.31, 2.304, 2.303, 2.306, 2.302}), Trouble::kAtChance);
  EXPECT_EQ(AfterReadings(of_ten_classes, {80, 2.31, 2.304, 2.303, 2.306, 2.302}), Trouble::kAtChance);
  EXPECT_EQ(AfterReadings(of_ten_classes, {0.3, 0.2, 2.31, 2.303, 2.306, 2.302}), Trouble::kAtChance);
  EXPECT_EQ(AfterReadings(of_no_classes, {2.31, 2.304, 2.303, 2.306, 2.302}), Trouble::kNone);
}

TEST_F(LearningWatchTest, WhoLearnsSlowlyIsNotBlamed) {
  EXPECT_EQ(AfterReadings(of_ten_classes, {2.302, 2.301, 2.3, 2.299, 2.298, 2.297}), Trouble::kNone);
  EXPECT_EQ(AfterReadings(of_ten_classes, {9, 6, 4.5, 3.6, 3.1, 2.8}), Trouble::kNone);
  EXPECT_EQ(AfterReadings(of_ten_classes, {0.01, 0.003, 0.02, 0.02, 0.03, 0.02}), Trouble::kNone);
  EXPECT_EQ(AfterReadings(of_ten_classes, {0.3, 0.2, 5, 3, 2, 1.4, 1}), Trouble::kNone) << "it recovers";
}

TEST_F(LearningWatchTest, ALossThatRisesForLongIsSeen) {
  EXPECT_EQ(AfterReadings(of_ten_classes, {0.5, 0.2, 0.9, 0.9, 1.1}), Trouble::kNone);
  EXPECT_EQ(AfterReadings(of_ten_classes, {0.5, 0.2, 0.9, 0.9, 1.1, 1.0}), Trouble::kRising);
  EXPECT_EQ(AfterReadings(of_no_classes, {40, 20, 50, 60, 55, 70}), Trouble::kRising);
  EXPECT_EQ(AfterReadings(of_no_classes, {40, 20, 25, 26, 25, 27}), Trouble::kNone);
}

TEST_F(LearningWatchTest, AReadingIsTheMeanOfManyExamples) {
  LearningWatch watch(100000, 8, 10);  // 20,000 examples
  for (int i = 0; i < 99; ++i) watch.ReportLease(kTen * 1000, 1000);
  EXPECT_EQ(watch.trouble(), Trouble::kNone);
  watch.ReportLease(kTen * 1000, 1000);
  EXPECT_EQ(watch.trouble(), Trouble::kAtChance);
  watch.ReportLease(1e9, 0);
  EXPECT_EQ(watch.trouble(), Trouble::kAtChance) << "nothing was computed";
}

TEST_F(LearningWatchTest, AnEvaluationIsJudgedByLossAndAccuracy) {
  const auto after = [&](double loss, double accuracy, double share) {
    LearningWatch watch = of_ten_classes;
    watch.ReportEvaluation({loss, accuracy, share});
    return watch.trouble();
  };
  EXPECT_EQ(after(2.3, 0.098, 1), Trouble::kAtChance);
  EXPECT_EQ(after(40, 0.1135, 1), Trouble::kAtChance);
  EXPECT_EQ(after(2.3, 0.098, 0.1), Trouble::kNone) << "it has only begun";
  EXPECT_EQ(after(2.29, 0.25, 1), Trouble::kNone) << "it begins to tell them apart";
  EXPECT_EQ(after(2.2, 0.1, 1), Trouble::kNone);
  EXPECT_EQ(after(std::nan(""), 0, 0.1), Trouble::kNotFinite);
}

// A guess has less loss than ln 3, and more than 1.2/3 right.
constexpr Guess kUneven = {.loss = 0.898, .accuracy = 0.6};

class FrequenciesTest : public ::testing::Test {
 protected:
  Trouble After(const LearningWatch::Evaluated& evaluated, std::initializer_list<double> readings) const {
    return AfterReadingsAnd(evaluated, readings).trouble();
  }
  LearningWatch AfterReadingsAnd(const LearningWatch::Evaluated& evaluated,
                                 std::initializer_list<double> readings) const {
    LearningWatch watch = With(readings, {4000, 10, 3});
    watch.ReportEvaluation(evaluated);
    return watch;
  }
};

TEST_F(FrequenciesTest, AGuessByThemIsSeen) {
  EXPECT_EQ(After({0.898, 0.6, 1, {kUneven, kUneven}}, {0.9}), Trouble::kGuesses);
  EXPECT_EQ(After({9, 0.6, 1, {kUneven, kUneven}}, {5}), Trouble::kGuesses);
  EXPECT_EQ(After({0.892, 0.6, 1, {kUneven, kUneven}}, {0.9}), Trouble::kGuesses) << "few examples make as much";
  EXPECT_EQ(After({0.898, 0.6, 0.1, {kUneven, kUneven}}, {0.9}), Trouble::kNone) << "it has only begun";
  EXPECT_EQ(After({0.88, 0.6, 1, {kUneven, kUneven}}, {0.9}), Trouble::kNone) << "it begins to tell them apart";
  EXPECT_EQ(After({0.898, 0.7, 1, {kUneven, kUneven}}, {0.9}), Trouble::kNone) << "and so here";
}

TEST_F(FrequenciesTest, OfMostExamplesInOneClassAFifthOfTheOthersIsMoreThanAGuess) {
  const Guess rare = {.loss = 0.325, .accuracy = 0.9};
  EXPECT_EQ(After({0.325, 0.91, 1, {rare, rare}}, {0.33}), Trouble::kGuesses);
  EXPECT_EQ(After({0.325, 0.93, 1, {rare, rare}}, {0.33}), Trouble::kNone);
}

TEST_F(FrequenciesTest, WhereNoClassHasHalfOfThemAFifthMoreThanItsShareIsMoreThanAGuess) {
  const Guess many = {.loss = 1.05, .accuracy = 0.4};
  EXPECT_EQ(After({1.05, 0.47, 1, {many, many}}, {1.05}), Trouble::kGuesses);
  EXPECT_EQ(After({1.05, 0.49, 1, {many, many}}, {1.05}), Trouble::kNone);
}

TEST_F(FrequenciesTest, OfNumbersAGuessIsTheirMean) {
  const Guess ages = {.loss = 150};
  const auto after = [&](double loss, double reading) {
    LearningWatch watch(4000, 10, 0);
    watch.ReportLease(reading * 1000, 1000);
    watch.ReportEvaluation({loss, 0, 1, {ages, ages}});
    return watch;
  };
  EXPECT_EQ(after(140, 151).trouble(), Trouble::kNone);
  EXPECT_EQ(after(150, 120).trouble(), Trouble::kNone) << "it overfits";
  LearningWatch watch = after(150, 151);
  EXPECT_EQ(watch.trouble(), Trouble::kGuesses);
  watch.ReportLease(151 * 1000, 1000);
  EXPECT_EQ(watch.trouble(), Trouble::kGuesses);
  watch.ReportLease(90 * 1000, 1000);
  EXPECT_EQ(watch.trouble(), Trouble::kNone) << "on the mean it learned more";
}

TEST_F(FrequenciesTest, OfNumbersALossThatIsFiniteAgainOutdatesOneThatWasNot) {
  LearningWatch watch(4000, 10, 0);
  watch.ReportEvaluation({std::nan(""), 0, 1});
  EXPECT_EQ(watch.trouble(), Trouble::kNotFinite);
  watch.ReportLease(151 * 1000, 1000);
  EXPECT_EQ(watch.trouble(), Trouble::kNone);
}

TEST_F(FrequenciesTest, WhatLearnedItsTrainingDataIsNotBlamed) {
  EXPECT_EQ(After({0.95, 0.6, 1, {kUneven, kUneven}}, {0.5}), Trouble::kNone);
  EXPECT_EQ(After({0.95, 0.6, 1, {kUneven, kUneven}}, {}), Trouble::kNone) << "nobody knows what it learned";
  LearningWatch small(90, 10, 3);  // never has a reading
  small.ReportLease(0.02 * 900, 900);
  small.ReportEvaluation({0.95, 0.6, 1, {kUneven, kUneven}});
  EXPECT_EQ(small.trouble(), Trouble::kNone);
}

TEST_F(FrequenciesTest, EachSetHasItsOwn) {
  const Guess even = {.loss = 1.0986, .accuracy = 1.0 / 3};
  EXPECT_EQ(After({0.9, 0.55, 1, {even, kUneven}}, {0.95}), Trouble::kNone) << "trained on all classes alike";
  EXPECT_EQ(After({1.1, 0.6, 1, {even, kUneven}}, {1.1}), Trouble::kGuesses);
  EXPECT_EQ(After({1.0, 0.6, 1, {even, kUneven}}, {1.1}), Trouble::kGuesses) << "more than its own alone";
  EXPECT_EQ(After({0.898, 0.6, 1, {{}, kUneven}}, {0.9}), Trouble::kNone) << "not known";
  EXPECT_EQ(After({0.898, 0, 1, {kUneven, {}}}, {0.9}), Trouble::kNone) << "not known";
}

TEST_F(FrequenciesTest, CountUntilTrainingLearnedMore) {
  LearningWatch watch = AfterReadingsAnd({0.898, 0.6, 0.5, {kUneven, kUneven}}, {0.9});
  watch.ReportLease(0.85 * 1000, 1000);
  EXPECT_EQ(watch.trouble(), Trouble::kGuesses) << "on the mean hardly less";
  watch.ReportLease(0.7 * 1000, 1000);
  EXPECT_EQ(watch.trouble(), Trouble::kNone);
}

TEST_F(LearningWatchTest, AModelThatOverfitsIsNotAtChance) {
  const auto after = [&](std::initializer_list<double> readings) {
    LearningWatch watch = With(readings, of_ten_classes);
    watch.ReportEvaluation({6, 0.11, 1});
    return watch.trouble();
  };
  EXPECT_EQ(after({2.3, 1.2, 0.4, 0.1}), Trouble::kNone);
  EXPECT_EQ(after({0.4, 0.1, 0.1, 2.31}), Trouble::kAtChance) << "what it had learned is gone";
  EXPECT_EQ(after({}), Trouble::kAtChance) << "nothing speaks for it";
}

TEST_F(LearningWatchTest, AnEvaluationCountsUntilTheNextOrUntilTrainingLearned) {
  LearningWatch watch = of_ten_classes;
  watch.ReportEvaluation({2.31, 0.1, 0.5});
  watch.ReportLease(2.25 * 1000, 1000);
  EXPECT_EQ(watch.trouble(), Trouble::kAtChance);
  watch.ReportLease(2.0 * 1000, 1000);
  EXPECT_EQ(watch.trouble(), Trouble::kNone);
  watch.ReportEvaluation({2.31, 0.1, 0.6});
  watch.ReportEvaluation({2.0, 0.3, 0.7});
  EXPECT_EQ(watch.trouble(), Trouble::kNone);
}

class LearningOfAJobTest : public ChiefRoleTest {
 protected:
  void TrainOfTwoClasses(double evaluated_loss, const Guesses& guesses = {}) {
    StartRunning({"model.layers.0.dense.units=2", "cluster.workerCount=2", "training.staleness.method=none",
                  "training.pullAhead=true"});
    cluster->evaluated_loss = cluster->trained_loss = evaluated_loss;  // half of the examples are right
    cluster->guesses = guesses;
    cluster->ReportData(cluster->worker[0]);
    TrainAndEvaluate();
    cluster->Wait(100ms);
    ASSERT_EQ(cluster->role->state(), JobState::kSucceeded);
  }
  std::string Diverging() { return cluster->Status()["diverging"]; }
};

TEST_F(LearningOfAJobTest, ASuccessAtChanceSaysSoInStatusAndSummary) {
  TrainOfTwoClasses(0.7);
  EXPECT_EQ(Diverging(),
            "the loss stays at that of a guess among 2 classes (0.693); the likely cause: a learning rate that is too "
            "high or too low (unless the inputs tell nothing of the labels); begin again in another job folder with "
            "--set training.optimizer.learningRate=0.01 or --set training.optimizer.learningRate=1");
  EXPECT_EQ(nlohmann::json::parse(cluster->disk->At("summary.json"))["diverging"], Diverging());
}

TEST_F(LearningOfAJobTest, ASuccessByGuessingFrequenciesSaysSo) {
  TrainOfTwoClasses(0.6, {.train = {.loss = 0.4, .accuracy = 0.9}, .eval = {.loss = 0.5, .accuracy = 0.8}});
  EXPECT_EQ(Diverging(),
            "the evaluation's loss and accuracy (0.6, 50.0 %) are no better than those of a guess that knows only how "
            "frequent the classes are (0.5, 80.0 %); the likely cause: a learning rate that is too high or too low "
            "(unless the inputs tell nothing of the labels); begin again in another job folder with --set "
            "training.optimizer.learningRate=0.01 or --set training.optimizer.learningRate=1");
}

TEST_F(LearningOfAJobTest, WhatLearnedHasNothingToSay) {
  TrainOfTwoClasses(0.5);
  EXPECT_EQ(Diverging(), "");
}

TEST_F(LearningOfAJobTest, StaleGradientsAreNamedAsTheCauseWithWhatMakesThemFresher) {
  StartRunning({"model.layers.0.dense.units=2", "cluster.workerCount=2", "training.staleness.method=none",
                "training.pullAhead=true"});
  cluster->evaluated_loss = cluster->trained_loss = 0.7;
  cluster->ps[0].stats.staleness = {.pushes = 11, .unknown = 1, .sum = 25, .max = 3, .histogram = {}};
  cluster->Beat(cluster->ps[0]);
  TrainAndEvaluate();
  EXPECT_THAT(Diverging(), AllOf(HasSubstr("stale gradients (by 2.5 updates on the mean)"),
                                 HasSubstr("--set training.staleness.method=auto or --set training.pullAhead=false or "
                                           "--set cluster.workerCount=1 or --set training.optimizer")));
}

// Where nothing damps them. Else the rate is too high for as many workers.
TEST_F(LearningOfAJobTest, WhereStaleGradientsAreDampedTheRateIsTheCause) {
  StartRunning({"model.layers.0.dense.units=2", "cluster.workerCount=2"});
  cluster->evaluated_loss = cluster->trained_loss = 0.9;  // more than a model begins with
  cluster->ps[0].stats.staleness = {.pushes = 11, .unknown = 1, .sum = 25, .max = 3, .histogram = {}};
  cluster->Beat(cluster->ps[0]);
  TrainAndEvaluate();
  EXPECT_THAT(Diverging(), HasSubstr("the likely cause: a learning rate that is too high for gradients that are stale "
                                     "by 2.5 updates on the mean (unless the inputs tell nothing of the labels); begin "
                                     "again in another job folder with --set training.optimizer.learningRate=0.01 or "
                                     "--set cluster.workerCount=1"));
}

// As with units that are never active, whatever the gradients are: fresh ones are not to blame.
TEST_F(LearningOfAJobTest, FreshGradientsAreNotBlamed) {
  StartRunning({"model.layers.0.dense.units=2", "cluster.workerCount=2", "training.staleness.method=none",
                "training.pullAhead=true"});
  cluster->evaluated_loss = cluster->trained_loss = 0.7;
  cluster->ps[0].stats.staleness = {.pushes = 10, .unknown = 0, .sum = 9, .max = 3, .histogram = {}};
  cluster->Beat(cluster->ps[0]);
  TrainAndEvaluate();
  EXPECT_THAT(Diverging(), AllOf(HasSubstr("the loss stays at that of a guess"), Not(HasSubstr("stale")),
                                 Not(HasSubstr("pullAhead")), Not(HasSubstr("workerCount"))));
}

TEST_F(LearningOfAJobTest, ALeasesLossIsWatched) {
  StartRunning();
  const LeaseId lease = cluster->Ask(cluster->worker[0], 1)[0];
  cluster->Apply(lease);
  LeaseDone done = cluster->Evidence(cluster->worker[0], lease);
  done.loss_sum = std::nan("");
  EXPECT_EQ(Diverging(), "");
  cluster->Say(cluster->worker[0].control, done);
  EXPECT_THAT(Diverging(), HasSubstr("the loss is not finite; "));
}

// What people read, of one worker.
class WordsOfTroubleTest : public ::testing::Test {
 protected:
  std::string Why(std::initializer_list<double> readings, const LearningWatch::Evaluated& evaluated, uint64_t classes) {
    LearningWatch watch = With(readings, {4000, 10, classes});
    watch.ReportEvaluation(evaluated);
    JobSpec job;
    job.training.optimizer.learning_rate = 1;
    return WhyItDiverges(watch, job, 1, {});
  }
};

TEST_F(WordsOfTroubleTest, WhatWasLearnedAndLostIsTold) {
  EXPECT_EQ(Why({0.4, 0.1, 2.31}, {2.31, 0.1, 1}, 10),
            "the loss stays at that of a guess among 10 classes (2.303), after 0.1 at its best; the likely cause: a "
            "learning rate that is too high; begin again in another job folder with --set "
            "training.optimizer.learningRate=0.1");
}

TEST_F(WordsOfTroubleTest, ARateIsNotTooLowWhereALossWasHigh) {
  EXPECT_THAT(Why({2.6, 2.31}, {2.31, 0.1, 1}, 10), AllOf(HasSubstr("too high ("), Not(HasSubstr("too low"))));
  EXPECT_THAT(Why({2.4, 2.31}, {2.31, 0.1, 1}, 10), HasSubstr("too high or too low ("));
}

TEST_F(WordsOfTroubleTest, AnEvaluationFarAboveSaysSo) {
  EXPECT_THAT(Why({}, {40, 0.1, 1}, 10),
              HasSubstr("the loss stays above that of a guess among 10 classes (2.303), at 40;"));
  EXPECT_THAT(Why({5}, {9, 0.6, 1, {kUneven, kUneven}}, 3),
              HasSubstr("the evaluation's loss and accuracy (9, 60.0 %) are worse than those of a guess"));
}

TEST_F(WordsOfTroubleTest, OfNumbersTheMeanIsTheGuess) {
  const Guess ages = {.loss = 150};
  EXPECT_THAT(
      Why({151}, {150, 0, 1, {ages, ages}}, 0),
      HasSubstr("the evaluation's loss (150) is no better than that of guessing the mean of the labels (150); the "
                "likely cause: a learning rate that is too high or too low (unless"));
  EXPECT_THAT(Why({100, 151, 151, 151, 151}, {150, 0, 1, {ages, ages}}, 0), HasSubstr("too high; begin"));
}

// The parts of a chief that reports what a program of the user's own says.
class LossOfOwnCodeTest : public ::testing::Test {
 protected:
  LossOfOwnCodeTest() { job.model.loss = Loss::kOwn; }
  std::string Why(double loss, uint64_t skipped = 0) {
    LearningWatch watch = LearningWatch::OfJob(job, 1000);
    watch.ReportLease(loss, 10);
    TaskStats servers;
    servers.pushes_skipped = skipped;
    return WhyItDiverges(watch, job, 2, servers);
  }
  JobSpec job;
};

TEST_F(LossOfOwnCodeTest, OneThatIsNoNumberWhereGradientsAreFiniteIsNotBlamedOnTheRate) {
  EXPECT_THAT(Why(std::nan("")),
              AllOf(HasSubstr("the loss that the code reports is no number, though no ps tells of gradients"),
                    HasSubstr("the likely cause: what the code returns as its loss"), Not(HasSubstr("learningRate"))));
}

TEST_F(LossOfOwnCodeTest, GradientsThatAreNotFiniteAreOfTraining) {
  EXPECT_THAT(Why(std::nan(""), 1),
              HasSubstr("the loss is not finite; the likely cause: a learning rate that is too high"));
}

// A square that overflows is what diverges.
TEST_F(LossOfOwnCodeTest, AnInfiniteOneIsOfTraining) {
  EXPECT_THAT(Why(std::numeric_limits<double>::infinity()),
              HasSubstr("the likely cause: a learning rate that is too high"));
}

TEST_F(LossOfOwnCodeTest, LayersHaveNoLossOfTheirOwn) {
  job.model.loss = Loss::kMeanSquaredError;
  EXPECT_THAT(Why(std::nan("")), HasSubstr("the likely cause: a learning rate that is too high"));
}

}  // namespace
}  // namespace downpour
