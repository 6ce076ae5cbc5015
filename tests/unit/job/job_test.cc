#include "job/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/job_file.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

JobSpec Job(const std::vector<std::string>& overrides = {}) {
  const JobFileResult result = ParseJob(R"(
name: small
model: {inputs: [{name: x, shape: [4]}], layers: [{dense: {units: 3}}]}
training: {batchSize: 2, leaseBatches: 2, epochs: 2, optimizer: {name: momentum}}
data: {train: {images: a, labels: b}}
)",
                                        "small.yaml", overrides);
  for (const JobError& error : result.errors) ADD_FAILURE() << ToString(error);
  return result.job;
}

// Protocol hole B8: what renames batches is another plan.
TEST(PlanDifferencesTest, NamesWhatMakesAnotherPlan) {
  const JobSpec job = Job();
  EXPECT_THAT(PlanDifferences(job, job), IsEmpty());
  const auto differences = [&](const std::string& override) { return PlanDifferences(Job({override}), job); };
  EXPECT_THAT(differences("seed=2"), ElementsAre("seed"));
  EXPECT_THAT(differences("training.batchSize=3"), ElementsAre("training.batchSize"));
  EXPECT_THAT(differences("training.pushEvery=2"), ElementsAre("training.pushEvery"));
  EXPECT_THAT(differences("training.localSteps=1"), ElementsAre("training.localSteps"));
  const JobSpec local = Job({"training.localSteps=1"});
  EXPECT_THAT(PlanDifferences(Job({"training.localSteps=2"}), local), ElementsAre("training.localSteps"));
  EXPECT_THAT(PlanDifferences(Job({"training.localSteps=1", "training.outer.name=nesterov"}), local),
              ElementsAre("training.outer.name"));
  EXPECT_THAT(PlanDifferences(Job({"training.localSteps=1", "training.outer.learningRate=0.5"}), local), IsEmpty());
  EXPECT_THAT(differences("training.wire=bf16"), ElementsAre("training.wire"));
  EXPECT_THAT(differences("training.staleness.method=rate"), ElementsAre("training.staleness.method"));
  EXPECT_THAT(PlanDifferences(Job({"training.leaseBatches=", "training.consistency=ssp"}), job),
              ElementsAre("training.consistency", "training.leaseBatches"));
  const auto sync = [](const std::string& group_size) {
    return Job({"training.leaseBatches=", "training.consistency=sync", "training.groupSize=" + group_size});
  };
  EXPECT_THAT(PlanDifferences(sync("2"), sync("3")), ElementsAre("training.groupSize"));
  EXPECT_THAT(differences("training.leaseBatches=3"), ElementsAre("training.leaseBatches"));
  EXPECT_THAT(differences("training.optimizer={name: sgd, learningRate: 0.1}"), ElementsAre("training.optimizer.name"));
  EXPECT_THAT(differences("model.loss=meanSquaredError"), ElementsAre("model"));
  EXPECT_THAT(differences("training.epochs=1"), ElementsAre(HasSubstr("training.epochs")));
}

// It is the chief's to find.
TEST(PlanDifferencesTest, WhatEarlierEpochsHadIsNotTheUsersToName) {
  const std::string earlier =
      "training.earlier=[{epochs: 1, examples: 12, fingerprint: 18446744073709551615}, "
      "{epochs: 2, examples: 13, fingerprint: 0}]";
  const JobSpec job = Job({earlier});
  EXPECT_EQ(job.training.earlier, (std::vector<EarlierEpochs>{{1, 12, UINT64_MAX}, {2, 13, 0}}));
  EXPECT_THAT(PlanDifferences(job, Job()), IsEmpty());
  EXPECT_THAT(PlanDifferences(Job(), job), IsEmpty());
  EXPECT_EQ(ParseCanonicalJob(CanonicalJob(job)).value(), job);
}

TEST(PlanDifferencesTest, LetsARunGoOnWithMoreEpochsOtherRatesAndAnotherCluster) {
  const JobSpec job = Job();
  for (const char* override : {"training.epochs=5", "training.optimizer.learningRate=0.5", "training.maxStaleness=7",
                               "cluster.parameterServerCount=1", "cluster.workerCount=7", "checkpoint.keep=9",
                               "training.optimizer.weightDecay=0.1", "training.optimizer.clipNorm=1",
                               "training.optimizer.schedule={name: cosine, warmupSteps: 3}",
                               "training.optimizer.overrides=[{variables: '*/bias', learningRate: 0.1}]",
                               "checkpoint.every=30s", "name=other", "training.evaluateEveryEpochs=3"}) {
    EXPECT_THAT(PlanDifferences(Job({override}), job), IsEmpty()) << override;
  }
}

}  // namespace
}  // namespace downpour
