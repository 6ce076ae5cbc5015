#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/idx.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using testing::HasSubstr;

// A model that says class c where pixel c is lit: kernel [4, 3] with 2 on the diagonal, no bias.
float Diagonal(uint32_t variable, int64_t i) { return variable == 0 && i / 3 == i % 3 ? 2.0f : 0.0f; }

class EvaluateTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = FreshFolder("evaluate");
    // Three images that the model knows, and two whose labels are others.
    const std::vector<uint8_t> pixels = {255, 0, 0, 0, 0, 255, 0, 0, 0, 0, 255, 0, 255, 0, 0, 0, 0, 255, 0, 0};
    ASSERT_TRUE(WriteIdx(dir_ + "/images", {5, 2, 2}, pixels).ok());
    ASSERT_TRUE(WriteIdx(dir_ + "/labels", {5}, std::vector<uint8_t>{0, 1, 2, 2, 0}).ok());
  }

  ToolOutcome Evaluate(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"evaluate", "--job-dir", dir_};
    args.insert(args.end(), more.begin(), more.end());
    return RunDownpour(args);
  }

  std::string dir_;
};

TEST_F(EvaluateTest, CountsOverAllBatchesTheShortLastOneToo) {
  JobSpec job = SmallJob();
  job.data.eval = {dir_ + "/images", dir_ + "/labels"};
  MakeCheckpoint(dir_, job, {2, 5}, Diagonal);
  const ToolOutcome outcome = Evaluate({"-o", "json"});
  ASSERT_EQ(outcome.code, kExitDone) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["checkpoint"], "2-5");
  EXPECT_EQ(json["examples"], 5);
  EXPECT_DOUBLE_EQ(json["accuracy"].get<double>(), 0.6);
  EXPECT_EQ(json["oldestVersion"], 10);
  EXPECT_EQ(json["newestVersion"], 11);
  const double partition = std::log(std::exp(2.0) + 2);
  EXPECT_NEAR(json["loss"].get<double>(), (3 * (partition - 2) + 2 * partition) / 5, 1e-6);
  EXPECT_THAT(Evaluate().out, HasSubstr("Accuracy    60.00 %"));
}

TEST_F(EvaluateTest, TellsTheMetricsOfTheJobOrOfTheCommandLine) {
  JobSpec job = SmallJob();
  job.data.eval = {dir_ + "/images", dir_ + "/labels"};
  job.training.metrics = {{MetricKind::kTopK, 2}};
  MakeCheckpoint(dir_, job, {2, 5}, Diagonal);
  const nlohmann::json json = nlohmann::json::parse(Evaluate({"-o", "json"}).out);
  EXPECT_DOUBLE_EQ(json["metrics"]["top2"].get<double>(), 0.8) << "the two others are equal, and the first comes first";
  EXPECT_THAT(Evaluate({"--set", "training.metrics=[logLoss, top2]"}).out,
              AllOf(HasSubstr("logLoss     1.0395"), HasSubstr("top2        0.8000")));
  EXPECT_EQ(Evaluate({"--set", "training.metrics=[auc]"}).code, kExitBadJobFile);
}

TEST_F(EvaluateTest, EvaluationDataMayBeGivenOnTheCommandLine) {
  MakeCheckpoint(dir_, SmallJob(), {1, 1}, Diagonal);
  const ToolOutcome without = Evaluate();
  EXPECT_EQ(without.code, kExitBadJobFile);
  EXPECT_THAT(without.err, HasSubstr("names no data.eval"));
  const ToolOutcome with =
      Evaluate({"--set", "data.eval.images=" + dir_ + "/images", "--set", "data.eval.labels=" + dir_ + "/labels"});
  EXPECT_EQ(with.code, kExitDone) << with.err;
}

// Rows are as they were born: the loss follows from what a pull of those keys answers.
TEST_F(EvaluateTest, GathersTheRowsThatABatchReads) {
  JobSpec job = JobWithTables();
  job.training.batch_size = 2;
  job.data.eval.files = {dir_ + "/eval.csv"};
  job.data.train.files = job.data.eval.files;
  PutFile(dir_ + "/eval.csv", "user,y\n3,0\n99,1\n3,2\n12345,0\n3,1\n");  // 12345 has no row
  MakeCheckpoint(dir_, job, {1, 1}, [](uint32_t variable, int64_t i) { return variable == 0 && i % 3 == 0 ? 9.f : 0; });
  const ToolOutcome outcome = Evaluate({"-o", "json"});
  ASSERT_EQ(outcome.code, kExitDone) << outcome.err;
  const std::vector<std::pair<uint64_t, int>> examples = {{3, 0}, {99, 1}, {3, 2}, {12345, 0}, {3, 1}};
  double loss = 0;
  for (const auto& [key, label] : examples) {
    std::vector<float> row(8);
    InitialRow(TablesOf(job)[0], key, row.data());
    const double first = 9 * std::accumulate(row.begin(), row.end(), 0.0);
    loss += std::log(std::exp(first) + 2) - (label == 0 ? first : 0);
  }
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["examples"], 5);
  EXPECT_NEAR(json["loss"].get<double>(), loss / 5, 1e-6);
}

TEST_F(EvaluateTest, WhatCannotBeEvaluatedIsNamed) {
  EXPECT_EQ(Evaluate().code, kExitFailed);
  JobSpec job = SmallJob();
  job.data.eval = {dir_ + "/gone", dir_ + "/labels"};
  MakeCheckpoint(dir_, job, {1, 1}, Diagonal);
  EXPECT_EQ(Evaluate().code, kExitFailed);
  EXPECT_THAT(Evaluate().err, HasSubstr(dir_ + "/gone"));
  EXPECT_EQ(Evaluate({"--set", "data.evil=1"}).code, kExitBadJobFile);
  const ToolOutcome other_model = Evaluate({"--set", "model.layers.0.dense.units=2"});
  EXPECT_EQ(other_model.code, kExitBadJobFile);
  EXPECT_THAT(other_model.err, HasSubstr("must not change the model"));
}

}  // namespace
}  // namespace downpour
