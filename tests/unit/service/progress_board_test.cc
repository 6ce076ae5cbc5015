#include "service/progress_board.h"

#include <gtest/gtest.h>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

TEST(ProgressBoardTest, OfAJobThatIsOverItHasTheSummary) {
  const ScratchFolder folder;
  folder.Write("summary.json", R"({"job":"x","state":"SUCCEEDED","elapsedSeconds":12.5,"evalAccuracy":0.75})");
  const Job over{.name = "x", .state = JobState::kSucceeded, .created_ms = 5};
  Job again = over;  // of a job of that name that was deleted
  again.created_ms = 6;
  ChiefStatuses statuses;
  ProgressBoard board(statuses);
  board.Want({over}, [&](const Job&) { return folder.path(); });
  EXPECT_EQ(board.Of(over).done, 1);
  EXPECT_EQ(board.Of(over).elapsed, 12.5);
  EXPECT_EQ(board.Of(over).accuracy, 0.75);
  EXPECT_EQ(board.Of(over).remaining, std::nullopt);
  EXPECT_EQ(board.Of(again).done, std::nullopt);
}

TEST(ProgressBoardTest, AnAccuracyOfTheUsersOwnIsTheAccuracy) {
  SummaryReport summary;
  summary.eval_metrics = {{"f1", 0.25}, {"accuracy", 0.5}};
  EXPECT_EQ(ProgressIn(summary).accuracy, 0.5);
  StatusReport status;
  EXPECT_EQ(ProgressIn(status).accuracy, std::nullopt);
  status.evaluation.metrics = summary.eval_metrics;
  EXPECT_EQ(ProgressIn(status).accuracy, 0.5);
}

TEST(ProgressBoardTest, ASummaryThatCouldNotBeReadIsReadAgain) {
  const ScratchFolder folder;
  const Job over{.name = "x", .state = JobState::kSucceeded};
  ChiefStatuses statuses;
  ProgressBoard board(statuses);
  const auto dir_of = [&](const Job&) { return folder.path(); };
  folder.Write("summary.json", R"({"job":"x","sta)");
  board.Want({over}, dir_of);
  EXPECT_EQ(board.Of(over).done, std::nullopt);
  folder.Write("summary.json", R"({"job":"x","state":"SUCCEEDED"})");
  board.Want({over}, dir_of);
  EXPECT_EQ(board.Of(over).done, 1);
}

TEST(ProgressBoardTest, ItForgetsAJobThatIsOverOnceNobodyWantsIt) {
  const ScratchFolder folder;
  folder.Write("summary.json", R"({"job":"x","state":"SUCCEEDED"})");
  const Job first{.name = "x", .state = JobState::kSucceeded};
  const Job second{.name = "y", .state = JobState::kSucceeded};
  ChiefStatuses statuses;
  const auto dir_of = [&](const Job&) { return folder.path(); };
  ProgressBoard patient(statuses);
  ProgressBoard forgetful(statuses, std::chrono::milliseconds(0));
  for (ProgressBoard* board : {&patient, &forgetful}) {
    board->Want({first}, dir_of);
    EXPECT_EQ(board->Of(first).done, 1);
    board->Want({second}, dir_of);
    EXPECT_EQ(board->Of(second).done, 1);
  }
  EXPECT_EQ(patient.Of(first).done, 1);
  EXPECT_EQ(forgetful.Of(first).done, std::nullopt);
}

TEST(ProgressBoardTest, AChiefThatIsNotThereKeepsNobodyWaiting) {
  const ScratchFolder folder;
  const Job job{.name = "x", .state = JobState::kRunning};
  ChiefStatuses statuses;
  ProgressBoard board(statuses);
  board.Want({job}, [&](const Job&) { return folder.path(); });
  EXPECT_EQ(board.Of(job).done, std::nullopt);
}

TEST(ProgressBoardTest, ProgressIsInEpochsAndTheLossOfAnEvaluationGoesFirst) {
  StatusReport status;
  status.progress.epoch = 2;
  status.progress.epochs = 4;
  status.progress.leases = 40;
  status.progress.leases_committed = 20;
  status.progress.examples_committed = 200;
  status.progress.train_examples = 100;
  status.progress.loss = 0.5;
  EXPECT_EQ(ProgressIn(status).done, 0.5);
  EXPECT_EQ(ProgressIn(status).loss, 0.5);
  status.evaluation.loss = 0.75;
  EXPECT_EQ(ProgressIn(status).loss, 0.75);
  EXPECT_EQ(ProgressIn(StatusReport{}).done, std::nullopt);
}

}  // namespace
}  // namespace downpour
