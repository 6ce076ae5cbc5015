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
  for (const std::string optimizer : {"sgd", "rmsprop", "adagrad"}) {
    EXPECT_TRUE(ParseJob(with(optimizer, "steepRate"), "j.yaml").ok()) << optimizer;
    EXPECT_THAT(OnlyError(with(optimizer, "slowMomentum")), HasSubstr("but training.optimizer.name is " + optimizer));
  }
  for (const std::string optimizer : {"momentum", "nesterov", "adam", "adamw"}) {
    EXPECT_TRUE(ParseJob(with(optimizer, "slowMomentum"), "j.yaml").ok()) << optimizer;
    EXPECT_THAT(OnlyError(with(optimizer, "steepRate")),
                HasSubstr("steepRate needs the optimizer sgd, rmsprop or adagrad, but training.optimizer.name is "));
  }
  EXPECT_THAT(OnlyError(with("ftrl", "steepRate")), HasSubstr("steepRate needs the optimizer sgd, rmsprop or adagrad"));
}

}  // namespace
}  // namespace downpour
