#include "chief/known/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr Incarnation kEvaluator{11};
constexpr Incarnation kOtherEvaluator{12};

// 19 examples in batches of 2, in parts of 3 batches: 6, 6, 6, 1 examples.
class EvaluationTest : public ::testing::Test {
 protected:
  EvalDone Answer(const EvalGrant& grant, uint64_t digest = 5) {
    const uint64_t begin = grant.first_batch * 2;
    const uint64_t end = std::min<uint64_t>(19, begin + grant.batches * 2);
    return {.from = grant.to,
            .round = grant.round,
            .first_batch = grant.first_batch,
            .batches = grant.batches,
            .loss_sum = 0.5 * static_cast<double>(end - begin),
            .correct = 1,
            .examples = end - begin,
            .versions_digest = digest,
            .oldest_version = 10 + begin,
            .newest_version = 20 + begin};
  }
  void AnswerAll(Incarnation worker) {
    for (auto grants = evaluation.Offer(worker); !grants.empty(); grants = evaluation.Offer(worker)) {
      for (const EvalGrant& grant : grants) ASSERT_TRUE(evaluation.Accept(Answer(grant)).ok());
    }
  }
  Evaluation evaluation{19, 2, 3};
};

TEST_F(EvaluationTest, AddsItsPartsUp) {
  evaluation.Begin(4, false);
  AnswerAll(kEvaluator);
  ASSERT_FALSE(evaluation.active());
  ASSERT_TRUE(evaluation.result().has_value());
  const Evaluation::Result& result = *evaluation.result();
  EXPECT_EQ(result.epoch, 4u);
  EXPECT_EQ(result.examples, 19u);
  EXPECT_DOUBLE_EQ(result.loss, 0.5);
  EXPECT_DOUBLE_EQ(result.accuracy, 4.0 / 19);
  EXPECT_EQ(result.oldest_version, 10u);
  EXPECT_EQ(result.newest_version, 38u);
}

TEST_F(EvaluationTest, WithoutDataThereIsNothingToDo) {
  evaluation = Evaluation(0, 2, 3);
  evaluation.Begin(1, true);
  EXPECT_FALSE(evaluation.active());
  EXPECT_FALSE(evaluation.result().has_value());
}

TEST_F(EvaluationTest, WhileValuesMoveOneWorkerDoesTheWholeRound) {
  evaluation.Begin(1, false);
  EXPECT_THAT(evaluation.Offer(kEvaluator), SizeIs(2));
  EXPECT_THAT(evaluation.Offer(kOtherEvaluator), IsEmpty());
  EXPECT_THAT(evaluation.Offer(kEvaluator), IsEmpty()) << "it has enough for now";
}

TEST_F(EvaluationTest, FrozenValuesAreSpreadOverAllWorkers) {
  evaluation.Begin(1, true);
  EXPECT_THAT(evaluation.Offer(kEvaluator), SizeIs(2));
  EXPECT_THAT(evaluation.Offer(kOtherEvaluator), SizeIs(2));
  EXPECT_THAT(evaluation.Outstanding(), SizeIs(4));
}

TEST_F(EvaluationTest, ADeadEvaluatorsRoundStartsAnewWithANewNumber) {
  evaluation.Begin(1, false);
  const EvalGrant old = evaluation.Offer(kEvaluator)[0];
  ASSERT_TRUE(evaluation.Accept(Answer(old)).ok());
  evaluation.Release(kEvaluator);
  EXPECT_EQ(evaluation.parts_done(), 0u);
  const std::vector<EvalGrant> fresh = evaluation.Offer(kOtherEvaluator);
  ASSERT_THAT(fresh, SizeIs(2));
  EXPECT_GT(fresh[0].round, old.round);
  ASSERT_TRUE(evaluation.Accept(Answer(old)).ok()) << "late, and no offence";
  EXPECT_EQ(evaluation.parts_done(), 0u);
}

TEST_F(EvaluationTest, OfFrozenValuesOnlyTheDeadOnesPartsAreHandedOn) {
  evaluation.Begin(1, true);
  const std::vector<EvalGrant> grants = evaluation.Offer(kEvaluator);
  ASSERT_TRUE(evaluation.Accept(Answer(grants[0])).ok());
  evaluation.Release(kEvaluator);
  EXPECT_EQ(evaluation.parts_done(), 1u);
  AnswerAll(kOtherEvaluator);
  EXPECT_FALSE(evaluation.active());
  EXPECT_EQ(evaluation.result()->round, grants[0].round);
}

TEST_F(EvaluationTest, PartsOfOtherVersionsMakeNoResult) {
  evaluation.Begin(1, true);
  const EvalGrant a = evaluation.Offer(kEvaluator)[0];
  const EvalGrant b = evaluation.Offer(kOtherEvaluator)[0];
  ASSERT_TRUE(evaluation.Accept(Answer(a, 5)).ok());
  ASSERT_TRUE(evaluation.Accept(Answer(b, 6)).ok());
  EXPECT_EQ(evaluation.parts_done(), 0u);
  EXPECT_THAT(evaluation.Offer(kOtherEvaluator), SizeIs(2));
  EXPECT_THAT(evaluation.Offer(kEvaluator), IsEmpty()) << "after a disagreement one worker does it all";
  AnswerAll(kOtherEvaluator);
}

TEST_F(EvaluationTest, AnAnswerSaidTwiceCountsOnce) {
  evaluation.Begin(1, false);
  const EvalGrant grant = evaluation.Offer(kEvaluator)[0];
  ASSERT_TRUE(evaluation.Accept(Answer(grant)).ok());
  ASSERT_TRUE(evaluation.Accept(Answer(grant, 6)).ok());
  EXPECT_EQ(evaluation.parts_done(), 1u);
}

TEST_F(EvaluationTest, RefusesWhatNoHonestWorkerAnswers) {
  evaluation.Begin(1, true);
  const EvalGrant grant = evaluation.Offer(kEvaluator)[0];
  std::vector<EvalDone> absurd(6, Answer(grant));
  absurd[0].round += 1;
  absurd[1].first_batch = 1;
  absurd[2].batches = 99;
  absurd[3].examples = 7;
  absurd[4].correct = 7;
  absurd[5].oldest_version = absurd[5].newest_version + 1;
  for (const EvalDone& done : absurd) EXPECT_TRUE(absl::IsInvalidArgument(evaluation.Accept(done)));
  EvalDone not_granted = Answer(grant);
  not_granted.first_batch = 9;
  not_granted.batches = 1;
  EXPECT_TRUE(absl::IsInvalidArgument(evaluation.Accept(not_granted)));
  EvalDone of_another = Answer(grant);
  of_another.from = kOtherEvaluator;
  EXPECT_TRUE(evaluation.Accept(of_another).ok());
  EXPECT_EQ(evaluation.parts_done(), 0u);
}

TEST_F(EvaluationTest, SumsOfMetricsAreThoseOfItsPartsOnceEach) {
  evaluation = Evaluation(19, 2, 3, {{MetricKind::kTopK, 5}, {MetricKind::kCalibration}});
  evaluation.Begin(1, true);
  double part = 0;
  for (auto grants = evaluation.Offer(kEvaluator); !grants.empty(); grants = evaluation.Offer(kEvaluator)) {
    for (const EvalGrant& grant : grants) {
      EvalDone done = Answer(grant);
      EXPECT_TRUE(absl::IsInvalidArgument(evaluation.Accept(done))) << "no sums";
      done.metric_sums = {++part, 6 * part, 4 * part};
      ASSERT_TRUE(evaluation.Accept(done).ok());
      ASSERT_TRUE(evaluation.Accept(done).ok()) << "said twice";
    }
  }
  ASSERT_TRUE(evaluation.result().has_value());
  EXPECT_THAT(evaluation.result()->metrics, ElementsAre(Pair("top5", 10.0 / 19), Pair("calibration", 1.5)));
}

TEST_F(EvaluationTest, MeansAreOverWeights) {
  evaluation = Evaluation(19, 2, 3, {{MetricKind::kLogLoss}}, /*counts_weights=*/true);
  const auto finish = [&](double weight, double right) {
    evaluation.Begin(1, true);
    for (auto grants = evaluation.Offer(kEvaluator); !grants.empty(); grants = evaluation.Offer(kEvaluator)) {
      for (const EvalGrant& grant : grants) {
        EvalDone done = Answer(grant);
        done.metric_sums = {weight};
        for (const auto& [all, part] :
             {std::pair(std::nan(""), 0.0), {-1.0, -1.0}, {1.0, 2.0}, {1.0, std::nan("")}, {1e300, 1.0}}) {
          done.weight = all;
          done.right = part;
          EXPECT_TRUE(absl::IsInvalidArgument(evaluation.Accept(done))) << all << " " << part;
        }
        done.loss_sum = 3 * weight;
        done.weight = weight;
        done.right = right;
        ASSERT_TRUE(evaluation.Accept(done).ok());
      }
    }
  };
  finish(0.5, 0.125);
  ASSERT_TRUE(evaluation.result().has_value());
  EXPECT_DOUBLE_EQ(evaluation.result()->loss, 3);
  EXPECT_DOUBLE_EQ(evaluation.result()->accuracy, 0.25);
  EXPECT_THAT(evaluation.result()->metrics, ElementsAre(Pair("logLoss", 1)));
  EXPECT_EQ(evaluation.result()->examples, 19u);
  finish(0, 0);
  EXPECT_EQ(evaluation.result()->loss, 0) << "where no example counts";
  EXPECT_EQ(evaluation.result()->accuracy, 0);
}

TEST_F(EvaluationTest, ALossThatIsNoNumberIsAResult) {
  evaluation.Begin(1, false);
  for (auto grants = evaluation.Offer(kEvaluator); !grants.empty(); grants = evaluation.Offer(kEvaluator)) {
    for (const EvalGrant& grant : grants) {
      EvalDone done = Answer(grant);
      done.loss_sum = std::nan("");
      ASSERT_TRUE(evaluation.Accept(done).ok());
    }
  }
  ASSERT_TRUE(evaluation.result().has_value());
  EXPECT_TRUE(std::isnan(evaluation.result()->loss));
}

TEST_F(EvaluationTest, AHugeSplitIsCutIntoFewParts) {
  const Evaluation huge(uint64_t{1} << 53, 1, 1);
  EXPECT_LE(huge.parts(), 4096u);
}

TEST_F(EvaluationTest, AResultIsReadAsItWasWritten) {
  const Evaluation::Result result{.round = 3,
                                  .epoch = 2,
                                  .loss = 0.1,
                                  .accuracy = 0.25,
                                  .examples = 7,
                                  .oldest_version = 5,
                                  .newest_version = 6,
                                  .metrics = {{"auc", 0.5}, {"top2", std::nan("")}}};
  const auto read = Evaluation::ResultOf(Evaluation::TextOf(result));
  ASSERT_TRUE(read);
  EXPECT_EQ(std::tie(read->round, read->epoch, read->loss, read->accuracy, read->examples, read->oldest_version),
            std::tie(result.round, result.epoch, result.loss, result.accuracy, result.examples, result.oldest_version));
  EXPECT_EQ(read->newest_version, 6u);
  EXPECT_EQ(read->metrics[0], result.metrics[0]);
  EXPECT_EQ(read->metrics[1].first, "top2");
  EXPECT_TRUE(std::isnan(read->metrics[1].second));
  for (const char* none : {"", "{", "[]", "{}", R"({"round": "x"})"}) EXPECT_FALSE(Evaluation::ResultOf(none)) << none;
}

}  // namespace
}  // namespace downpour
