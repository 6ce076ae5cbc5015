#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/job_file.h"
#include "tests/unit/job/job_text.h"

namespace downpour {
namespace {

using testing::HasSubstr;

TEST(JobFile, LocalStepsHaveAnOuterOptimizer) {
  const auto training = [](const std::string& text) {
    const JobFileResult result = ParseJob(With("epochs: 10", text), "j.yaml");
    EXPECT_TRUE(result.ok()) << text << ": " << ToString(result.errors[0]);
    return result.job.training;
  };
  const TrainingSpec usual = training("localSteps: 8");
  EXPECT_EQ(usual.step_batches(), 8);
  EXPECT_EQ(usual.outer.kind, OptimizerKind::kSgd) << "one worker learns as it does without local steps";
  EXPECT_EQ(usual.outer.learning_rate, 1);
  EXPECT_EQ(usual.servers_optimizer(), usual.outer);
  EXPECT_EQ(training("localSteps: 8\n  outer: {name: sgd}").outer, usual.outer);
  EXPECT_EQ(training("localSteps: 8\n  outer: {learningRate: 0.5}").outer.learning_rate, 0.5);
  const OptimizerSpec diloco = training("localSteps: 8\n  outer: {name: nesterov}").outer;
  EXPECT_EQ(diloco.learning_rate, 0.7);
  EXPECT_EQ(diloco.momentum, 0.9);
  EXPECT_EQ(training("localSteps: 8\n  consistency: ssp").lease_batches, 8);
  EXPECT_EQ(training("localSteps: 0\n  pushEvery: 2").step_batches(), 2);
  EXPECT_TRUE(training("localSteps: 4").has_worker_state());
  EXPECT_TRUE(training("wire: bf16").has_worker_state());
  EXPECT_FALSE(training("localSteps: 0").has_worker_state());

  const std::pair<const char*, const char*> bad[] = {
      {"localSteps: -1", "training.localSteps: is -1"},
      {"localSteps: 17", "training.localSteps: a push holds batches of one lease, which has 16; take that at most"},
      {"localSteps: 4\n  pushEvery: 4", "training.pushEvery: with localSteps a push is for 4 batches already"},
      {"localSteps: 4\n  pushEvery: 1", "leave one of the two out"},
      {"localSteps: 4\n  consistency: sync",
       "training.localSteps: with consistency: sync each gradient is of the same"},
      {"localSteps: 4\n  consistency: ssp\n  leaseBatches: 16",
       "leaseBatches: is localSteps, 4, with consistency: ssp"},
      {"outer: {name: sgd}", "training.outer: means something only with localSteps, but there are none"},
      {"localSteps: 4\n  outer: {name: adam}", "training.outer.name: "},
      {"localSteps: 4\n  outer: {name: sgd, momentum: 0.5}", "momentum: means something only with name: momentum or"},
      {"localSteps: 4\n  outer: {momentum: 0.5}", "training.outer.momentum: means something only with name: momentum"},
      {"localSteps: 4\n  outer: {name: nesterov, momentum: 1}",
       "training.outer.momentum: is 1, but must be at least 0 and below 1"},
      {"localSteps: 4\n  outer: {learningRate: 0}", "training.outer.learningRate: is 0"},
      {"localSteps: 4\n  outer: {name: sgd}\n  staleness: {method: slowMomentum}", "but training.outer.name is sgd"},
      {"localSteps: 4\n  staleness: {method: steepRate}", "with local steps it is rate that counts less where"},
  };
  for (const auto& [text, error] : bad) {
    EXPECT_THAT(OnlyError(With("epochs: 10", text)), HasSubstr(error)) << text;
  }
}

}  // namespace
}  // namespace downpour
