#include "chief/known/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace downpour {
namespace {

TEST(ProgressTest, LossIsTheMeanOfTheLastReports) {
  Progress progress;
  EXPECT_FALSE(progress.Loss().has_value());
  progress.ReportLoss(8, 4);
  progress.ReportLoss(4, 8);
  EXPECT_DOUBLE_EQ(*progress.Loss(), 1.0);
  for (size_t i = 0; i < Progress::kLossReports; ++i) progress.ReportLoss(1, 10);
  EXPECT_NEAR(*progress.Loss(), 0.1, 1e-12);
}

TEST(ProgressTest, ALossThatIsNoNumberIsLeftOut) {
  Progress progress;
  progress.ReportLoss(std::nan(""), 4);
  progress.ReportLoss(std::numeric_limits<double>::infinity(), 4);
  progress.ReportLoss(1, 0);
  EXPECT_FALSE(progress.Loss().has_value());
  for (int i = 0; i < 3; ++i) progress.ReportLoss(std::numeric_limits<double>::max(), 1);
  EXPECT_FALSE(progress.Loss().has_value()) << "their sum is infinite";
}

TEST(ProgressTest, AnEpochsLossIsOfItsOwnReports) {
  Progress progress;
  progress.NoteEpochs(2);
  EXPECT_EQ(progress.EpochLoss(), std::nullopt) << "another chief heard their reports";
  progress.ReportLoss(8, 4);
  progress.NoteEpochs(2);
  EXPECT_EQ(progress.EpochLoss(), std::nullopt);
  progress.ReportLoss(4, 4);
  progress.NoteEpochs(3);
  EXPECT_EQ(progress.EpochLoss(), 1.5);
  progress.ReportLoss(2, 4);
  progress.NoteEpochs(4);
  progress.NoteEpochs(3);
  EXPECT_EQ(progress.EpochLoss(), 0.5);
  EXPECT_NE(progress.Loss(), 0.5);
  progress.ReportLoss(std::nan(""), 4);
  progress.NoteEpochs(5);
  EXPECT_EQ(progress.EpochLoss(), std::nullopt) << "it has none";
  progress.ReportLoss(2, 4);
  progress.ReportLoss(std::nan(""), 0);
  progress.NoteEpochs(6);
  EXPECT_EQ(progress.EpochLoss(), std::nullopt) << "nor with examples of no weight";
}

TEST(ProgressTest, LeasesThatAreOpenedAgainGiveNoRateBelowZero) {
  Progress progress;
  progress.Begin(Time{100s}, 1000);
  progress.Commit(Time{101s}, 1100);
  progress.Commit(Time{102s}, 900);
  EXPECT_EQ(progress.ExamplesPerSecond(Time{102s}), 0);
  EXPECT_EQ(progress.MeanExamplesPerSecond(), std::nullopt);
  progress.Commit(Time{103s}, 1000);
  EXPECT_DOUBLE_EQ(progress.ExamplesPerSecond(Time{103s}), 100);
}

TEST(ProgressTest, RemainingFollowsFromTheRate) {
  Progress progress;
  EXPECT_EQ(progress.SecondsSinceBegin(Time{100s}), 0);
  progress.Begin(Time{100s}, 1000);
  EXPECT_EQ(progress.SecondsSinceBegin(Time{103s}), 3);
  EXPECT_FALSE(progress.RemainingSeconds(Time{100s}, 500).has_value());
  progress.Commit(Time{101s}, 1100);
  progress.Commit(Time{102s}, 1200);
  EXPECT_DOUBLE_EQ(progress.ExamplesPerSecond(Time{102s}), 100);
  EXPECT_DOUBLE_EQ(*progress.RemainingSeconds(Time{102s}, 500), 5);
  EXPECT_DOUBLE_EQ(progress.MeanExamplesPerSecond().value(), 100);
}

TEST(ProgressTest, NothingMovesOnceNoTaskGotOnForLong) {
  Progress progress;
  EXPECT_FALSE(progress.StandsStill(Time{1000s})) << "it has not begun";
  progress.Begin(Time{100s}, 0);
  progress.Commit(Time{101s}, 100);
  progress.Commit(Time{102s}, 200);
  progress.Move(Time{104s});
  const Time still = Time{104s} + Progress::kStandsStillAfter;
  EXPECT_FALSE(progress.StandsStill(still - 1ms));
  EXPECT_GT(progress.ExamplesPerSecond(still - 1ms), 0);
  EXPECT_TRUE(progress.StandsStill(still));
  EXPECT_EQ(progress.ExamplesPerSecond(still), 0);
  EXPECT_EQ(progress.RemainingSeconds(still, 500), std::nullopt);
  progress.Move(Time{103s});
  EXPECT_TRUE(progress.StandsStill(still)) << "which came late";
  progress.Commit(still, 300);
  EXPECT_FALSE(progress.StandsStill(still));
}

// Else it would tell of months for a while.
TEST(ProgressTest, BehindAStandstillTheRateIsThatSinceItEnded) {
  Progress progress;
  progress.Begin(Time{100s}, 0);
  progress.Commit(Time{101s}, 100);
  progress.Commit(Time{102s}, 200);
  progress.Move(Time{1000s});
  EXPECT_EQ(progress.RemainingSeconds(Time{1000s}, 500), std::nullopt) << "nothing is known of its rate yet";
  progress.Commit(Time{1001s}, 300);
  EXPECT_DOUBLE_EQ(progress.RemainingSeconds(Time{1001s}, 500).value_or(0), 5);
}

TEST(ProgressTest, ThePauseOfTheChiefIsNobodysStandstill) {
  Progress progress;
  progress.Begin(Time{100s}, 0);
  progress.Discount(60s);
  EXPECT_FALSE(progress.StandsStill(Time{165s}));
  EXPECT_TRUE(progress.StandsStill(Time{175s}));
}

}  // namespace
}  // namespace downpour
