#include "job/optimizer_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "tests/unit/job/job_text.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// The sample job of job_text.h, whose variables are dense_0/kernel and so on, with another optimizer.
std::vector<std::string> ErrorsWithOptimizer(const std::string& optimizer) {
  return ErrorsOf(kJob, {absl::StrCat("training.optimizer=", optimizer)});
}
OptimizerSpec SpecOf(const std::string& optimizer) {
  const JobFileResult result = ParseJob(kJob, "j.yaml", {absl::StrCat("training.optimizer=", optimizer)});
  for (const JobError& error : result.errors) ADD_FAILURE() << ToString(error);
  return result.job.training.optimizer;
}

TEST(OptimizerSpecTest, EachKindHasItsDefaults) {
  EXPECT_EQ(SpecOf("{name: adagrad}").epsilon, 1e-10);
  EXPECT_EQ(SpecOf("{name: rmsprop}").epsilon, 1e-8);
  EXPECT_EQ(SpecOf("{name: adamw}").weight_decay, 0.01);
  EXPECT_EQ(SpecOf("{name: adamw, weightDecay: 0}").weight_decay, 0);
  EXPECT_EQ(SpecOf("{name: adam}").weight_decay, 0);
}

TEST(OptimizerSpecTest, ANumberOfAnotherKindIsRefusedByName) {
  for (const auto& [text, kinds] :
       {std::pair("{name: sgd, epsilon: 1e-3}", "adagrad or rmsprop or adam or adamw, but name is sgd"),
        {"{name: adam, alpha: 0.5}", "rmsprop, but name is adam"},
        {"{name: adagrad, l1: 0.5}", "ftrl, but name is adagrad"},
        {"{name: ftrl, initialAccumulator: 0.5}", "adagrad, but name is ftrl"}}) {
    EXPECT_THAT(ErrorsWithOptimizer(text), testing::ElementsAre(HasSubstr(kinds))) << text;
  }
}

TEST(OptimizerSpecTest, NumbersThatMakeNoSenseAreRefused) {
  for (const char* bad :
       {"{name: sgd, clipNorm: -1}", "{name: sgd, clipValue: .inf}", "{name: sgd, weightDecay: 1e-40}",
        "{name: ftrl, beta: 0}", "{name: rmsprop, alpha: 1}", "{name: ftrl, l1: .nan}"}) {
    EXPECT_EQ(ErrorsWithOptimizer(bad).size(), 1u) << bad;
  }
  EXPECT_THAT(ErrorsWithOptimizer("{name: sgd, learningRate: 2, weightDecay: 0.5}"),
              testing::ElementsAre(HasSubstr("each step would take more than all of a value away")));
}

TEST(OptimizerSpecTest, ASchedulesKeysBelongToIt) {
  for (const auto& [text, what] :
       {std::pair("{name: cosine, stepEvery: 5}", "only with name: step, but name is cosine"),
        {"{name: step, stepEvery: 5, finalShare: 0.1}", "only with name: cosine, but name is step"},
        {"{name: step}", "schedule.stepEvery: is missing"},
        {"{name: cosine, warmupSteps: 9, totalSteps: 9}", "counts the warm-up too, which has 9 steps"},
        {"{name: cosin}", "did you mean cosine?"},
        {"{warmupSteps: -1}", "warmupSteps: "},
        {"{name: step, stepEvery: 3, decay: 1.5}", "between 1e-37 and 1"}}) {
    EXPECT_THAT(ErrorsWithOptimizer(absl::StrCat("{name: sgd, schedule: ", text, "}")),
                testing::ElementsAre(HasSubstr(what)));
  }
  EXPECT_EQ(SpecOf("{name: sgd, schedule: {name: cosine, warmupSteps: 5}}").schedule,
            (ScheduleSpec{.kind = ScheduleKind::kCosine, .warmup_steps = 5}));
}

TEST(OptimizerSpecTest, APatternMustMatchAVariable) {
  const auto with = [](const std::string& pattern) {
    return ErrorsWithOptimizer("{name: sgd, overrides: [{variables: '" + pattern + "', learningRate: 0.1}]}");
  };
  for (const char* good : {"*", "dense_0/bias", "*/bias", "dense_?/kernel", "dense_[01]/*"}) {
    EXPECT_THAT(with(good), IsEmpty()) << good;
  }
  EXPECT_THAT(with("dens_0/bias"), testing::ElementsAre(AllOf(HasSubstr("overrides.0.variables: 'dens_0/bias' matches "
                                                                        "no variable"),
                                                              HasSubstr("did you mean dense_0/bias?"))));
  EXPECT_THAT(with("conv*"), testing::ElementsAre(HasSubstr("the variables are dense_0/kernel, dense_0/bias")));
  EXPECT_THAT(ErrorsWithOptimizer("{name: sgd, overrides: [{variables: '*'}]}"),
              testing::ElementsAre(HasSubstr("overrides.0: changes nothing")));
  EXPECT_THAT(ErrorsWithOptimizer("{name: sgd, overrides: [{variables: '*', momentum: 0.5}]}"),
              testing::ElementsAre(HasSubstr("unknown key")));
  EXPECT_THAT(ErrorsWithOptimizer("{name: sgd, learningRate: 2, overrides: [{variables: '*', weightDecay: 0.5}]}"),
              testing::ElementsAre(HasSubstr("overrides.0.weightDecay: is 0.5, and times the learning rate of 2")));
}

TEST(OptimizerSpecTest, OfSeveralOverridesTheLastOneCountsNumberByNumber) {
  const OptimizerSpec spec = SpecOf(
      "{name: sgd, learningRate: 0.5, weightDecay: 0.01, overrides: [{variables: '*/bias', weightDecay: 0, "
      "learningRate: 0.25}, {variables: 'dense_1/*', learningRate: 0.125}]}");
  const OptimizerSpec bias = OfVariable(spec, "dense_1/bias");
  EXPECT_EQ(bias.learning_rate, 0.125);
  EXPECT_EQ(bias.weight_decay, 0);
  EXPECT_EQ(OfVariable(spec, "dense_0/kernel").learning_rate, 0.5);
  EXPECT_EQ(OfVariable(spec, "dense_0/kernel").weight_decay, 0.01);
}

}  // namespace
}  // namespace downpour
