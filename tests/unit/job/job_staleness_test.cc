#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/job_file.h"
#include "tests/unit/job/job_text.h"

namespace downpour {
namespace {

using testing::HasSubstr;

TEST(JobStaleness, AMethodOfStalenessNeedsItsOptimizers) {
  const auto with = [](const std::string& optimizer, const std::string& method) {
    return With("optimizer: {name: momentum, learningRate: 0.02, momentum: 0.9}",
                "optimizer: {name: " + optimizer + "}\n  staleness: {method: " + method + "}");
  };
  for (const std::string optimizer : {"sgd", "rmsprop", "adagrad", "ftrl"}) {
    EXPECT_TRUE(ParseJob(with(optimizer, "steepRate"), "j.yaml").ok()) << optimizer;
  }
  for (const std::string optimizer : {"rmsprop", "adagrad", "ftrl"}) {
    EXPECT_THAT(OnlyError(with(optimizer, "slowMomentum")), HasSubstr("but training.optimizer.name is " + optimizer));
  }
  for (const std::string optimizer : {"sgd", "momentum", "nesterov", "adam", "adamw"}) {
    EXPECT_TRUE(ParseJob(with(optimizer, "slowMomentum"), "j.yaml").ok()) << optimizer;
    if (optimizer == "sgd") continue;
    EXPECT_THAT(
        OnlyError(with(optimizer, "steepRate")),
        HasSubstr("steepRate needs the optimizer sgd, rmsprop, adagrad or ftrl, but training.optimizer.name is "));
  }
}

TEST(JobStaleness, SgdRemembersWhatCameLateAndNothingElse) {
  TrainingSpec training;
  EXPECT_EQ(MethodOf(training), StalenessMethod::kSlowMomentum);
  EXPECT_EQ(training.servers_optimizer().kind, OptimizerKind::kMomentum);
  EXPECT_EQ(training.servers_optimizer().momentum, 0);
  EXPECT_THAT(SlotNames(training), testing::ElementsAre("velocity"));
  for (const StalenessMethod method : {StalenessMethod::kNone, StalenessMethod::kRate, StalenessMethod::kSteepRate}) {
    training.staleness_method = method;
    EXPECT_EQ(training.servers_optimizer(), training.optimizer);
    EXPECT_EQ(SlotCount(training), 0) << "those who have no memory for a velocity ask for one of these";
  }
  training.staleness_method = StalenessMethod::kAuto;
  training.consistency = Consistency::kSync;
  EXPECT_EQ(MethodOf(training), StalenessMethod::kNone);
  EXPECT_EQ(training.servers_optimizer(), training.optimizer);
  training.consistency = Consistency::kAsync;
  training.local_steps = 4;
  EXPECT_EQ(MethodOf(training), StalenessMethod::kRate);
  EXPECT_EQ(training.servers_optimizer(), training.outer);
}

}  // namespace
}  // namespace downpour
