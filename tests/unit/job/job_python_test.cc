// What a job file says of a model in the user's Python code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/job_file.h"
#include "job/job_names.h"
#include "job/plan_check.h"
#include "job/slice_grid.h"
#include "job/variables.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kOwnJob[] = R"(
name: own
python:
  module: trainer.task
  sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
  bytes: 3
  args: ["--width", "3"]
model:
  variables:
    - {name: conv.weight, shape: [8, 1, 3, 3]}
    - {name: scale, shape: []}
    - {name: mean, shape: [8], trainable: false}
  classes: 10
  initializeFrom: /job/python/initial.safetensors
training: {metrics: [f1, accuracy]}
data: {format: python, trainExamples: 60000, evalExamples: 10000}
)";

JobFileResult ParseOwn(const std::vector<std::string>& overrides = {}) {
  return ParseJob(kOwnJob, "own.yaml", overrides);
}

std::string FirstError(const std::vector<std::string>& overrides) {
  const JobFileResult result = ParseOwn(overrides);
  return result.errors.empty() ? "" : ToString(result.errors[0]);
}

TEST(JobPythonTest, ItsVariablesAreTheModels) {
  const JobFileResult result = ParseOwn();
  ASSERT_THAT(result.errors, IsEmpty()) << ToString(result.errors[0]);
  const auto variables = InferVariables(result.job.model).value();
  ASSERT_EQ(variables.size(), 3u);
  EXPECT_EQ(variables[0].elements(), 72);
  EXPECT_EQ(variables[1].elements(), 1);
  EXPECT_TRUE(variables[0].trainable);
  EXPECT_FALSE(variables[2].trainable);
  EXPECT_TRUE(result.job.model.has_accuracy());
  EXPECT_TRUE(result.job.data.has_eval());
  EXPECT_EQ(NameOf(result.job.training.metrics[0]), "f1");
}

TEST(JobPythonTest, TheCanonicalTextIsTheSameJob) {
  const JobSpec job = ParseOwn().job;
  const auto again = ParseCanonicalJob(CanonicalJob(job));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, job);
  EXPECT_THAT(PlanDifferences(job, *again), IsEmpty());
}

TEST(JobPythonTest, MetricsAreOfTheKindThatTheCodeSays) {
  const JobFileResult own = ParseOwn(
      {"python.metrics=[{name: f1, kind: ratio, better: more}, {name: clicks, kind: auc}, {name: size}]",
       "training.metrics=[size, clicks, f1, accuracy]", "training.stopEarly.metric=f1", "checkpoint.best=clicks"});
  ASSERT_TRUE(own.ok()) << ToString(own.errors.front());
  const std::vector<MetricSpec> wanted = {{.kind = MetricKind::kMean, .name = "size"},
                                          {.kind = MetricKind::kAuc, .name = "clicks"},
                                          {.kind = MetricKind::kRatio, .name = "f1", .better = Better::kMore},
                                          {.kind = MetricKind::kMean, .name = "accuracy"}};
  EXPECT_EQ(own.job.training.metrics, wanted);
  EXPECT_EQ(*ParseCanonicalJob(CanonicalJob(own.job)), own.job);
  EXPECT_THAT(PlanDifferences(own.job, ParseOwn().job), IsEmpty()) << "metrics do not belong to the plan";
  EXPECT_THAT(FirstError({"training.stopEarly.metric=f1"}), HasSubstr("training.stopEarly.metric"));
  EXPECT_THAT(FirstError({"python.metrics=[{name: a}, {name: a, kind: auc}]"}), HasSubstr("two metrics are named a"));
  EXPECT_THAT(FirstError({"python.metrics=[{name: a, kind: auc, better: less}]"}),
              HasSubstr("means something only with kind: mean or ratio"));
  EXPECT_THAT(FirstError({"python.metrics=[{name: a, kind: logLoss}]"}), HasSubstr("python.metrics.0.kind"));
}

TEST(JobPythonTest, TheModelMayHaveTables) {
  const std::vector<std::string> tables = {"model.tables=[{name: users, width: 8, optimizer: {name: sgd}}]",
                                           "model.tableBuckets=5"};
  const JobFileResult own = ParseOwn(tables);
  ASSERT_TRUE(own.ok()) << ToString(own.errors.front());
  const SliceGrid grid = GridOf(own.job.model).value();
  EXPECT_EQ(grid.buckets, 5u);
  EXPECT_EQ(grid.dense(), GridOf(ParseOwn().job.model)->size());
  EXPECT_THAT(grid.row_widths, ::testing::ElementsAre(8));
  EXPECT_EQ(*ParseCanonicalJob(CanonicalJob(own.job)), own.job);
  EXPECT_THAT(PlanDifferences(own.job, ParseOwn().job), ::testing::Contains("model.tables"));
  const JobFileResult sync = ParseOwn({tables[0], "training.consistency=sync"});
  ASSERT_FALSE(sync.ok());
  EXPECT_THAT(ToString(sync.errors.front()), HasSubstr("does not go with model.tables in this version"));
}

TEST(JobPythonTest, OtherVariablesAreAnotherPlanAndAnotherPathIsNot) {
  const JobSpec job = ParseOwn().job;
  EXPECT_THAT(PlanDifferences(job, ParseOwn({"model.variables.1.shape=[2]"}).job), ::testing::ElementsAre("model"));
  EXPECT_THAT(PlanDifferences(job, ParseOwn({"model.initializeFrom=/moved", "python.bytes=4"}).job), IsEmpty());
}

TEST(JobPythonTest, ThePlanThatDiffersNamesAVariable) {
  const auto difference = [](const std::vector<std::string>& before) {
    return std::string(CheckSamePlan(ParseOwn().job, CanonicalJob(ParseOwn(before).job), "it").message());
  };
  EXPECT_THAT(difference({"model.variables.1.shape=[2]"}), HasSubstr("model (scale [2] there, scale [] here): set"));
  EXPECT_THAT(difference({"model.variables.2.trainable=true"}),
              HasSubstr("model (mean [8] there, mean [8], not trained here): set"));
  EXPECT_THAT(difference({"model.variables=[{name: conv.weight, shape: [8, 1, 3, 3]}]"}),
              HasSubstr("model (no more variables there, scale [] here): set"));
}

TEST(JobPythonTest, WhatDoesNotFitIsRefusedByName) {
  EXPECT_THAT(FirstError({"model.variables.1.name=conv.weight"}), HasSubstr("another variable has the same name"));
  EXPECT_THAT(FirstError({"model.variables.0.shape=[17179869184, 2]"}),
              HasSubstr("hold more than 17179869184 numbers"));
  EXPECT_THAT(FirstError({"model.variables.0.shape=[0]"}), HasSubstr("model.variables.0.shape.0"));
  EXPECT_THAT(FirstError({"model.initializeFrom="}), HasSubstr("model.initializeFrom: is missing"));
  EXPECT_THAT(FirstError({"model.layers=[{dense: {units: 2}}]"}), HasSubstr("model.layers"));
  EXPECT_THAT(FirstError({"python.sha256=BA78"}), HasSubstr("no SHA-256 in 64 hexadecimal digits"));
  EXPECT_THAT(FirstError({"python.bytes=67108865"}), HasSubstr("python.bytes"));
  EXPECT_THAT(FirstError({"python="}), HasSubstr("start the job by downpour run --module-name"));
  EXPECT_THAT(FirstError({"python.module=../task"}), HasSubstr("is no name of a Python module"));
  EXPECT_THAT(FirstError({"data={format: idx, train: {images: a, labels: b}}"}),
              HasSubstr("data.format: is not python"));
  EXPECT_THAT(FirstError({"data.train={images: a, labels: b}"}), HasSubstr("data.train"));
  EXPECT_THAT(FirstError({"training.metrics=[loss]"}), HasSubstr("the loss is always told"));
  EXPECT_THAT(FirstError({"training.metrics=[f1, f1]"}), HasSubstr("f1 stands there twice"));
  EXPECT_THAT(FirstError({"training.stopEarly={metric: f1}"}), HasSubstr("training.stopEarly.metric"));
}

TEST(JobPythonTest, AnAccuracyOfItsOwnIsComparedAsTheJobsIs) {
  const std::string without_classes = "model.classes=0", own = "training.metrics=[accuracy]";
  for (const std::vector<std::string>& settings : {std::vector<std::string>{without_classes, own}, {own}}) {
    std::vector<std::string> all = settings;
    all.push_back("training.stopEarly={metric: accuracy}");
    const JobFileResult result = ParseOwn(all);
    ASSERT_THAT(result.errors, IsEmpty()) << ToString(result.errors[0]);
    EXPECT_EQ(result.job.training.stop_early->metric, "accuracy");
    EXPECT_EQ(result.job.checkpoint.best, "accuracy");
  }
  EXPECT_THAT(FirstError({without_classes, "training.metrics=[f1]", "training.stopEarly={metric: accuracy}"}),
              HasSubstr("training.stopEarly.metric"));
}

}  // namespace
}  // namespace downpour
