#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/job_file.h"
#include "tests/unit/job/job_text.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(JobFile, NumbersAreChecked) {
  for (const std::string bad : {"1.5", "1e3", "0x10", "99999999999999999999", "[1]", "{a: 1}", "+3"}) {
    EXPECT_THAT(OnlyError(With("epochs: 10", "epochs: " + bad)), HasSubstr("training.epochs: ")) << bad;
  }
  for (const std::string bad : {"0", "-1", ".inf", ".nan", "nan", "1e999", "x", "[]"}) {
    EXPECT_THAT(OnlyError(With("learningRate: 0.02", "learningRate: " + bad)), HasSubstr("learningRate: ")) << bad;
  }
  EXPECT_THAT(OnlyError(With(", momentum: 0.9", ", momentum: 1")), HasSubstr("at least 0 and below 1"));
  EXPECT_EQ(ParseJob(With("name: mnist", "name: m\nseed: 18446744073709551615"), "").job.seed, UINT64_MAX);
}

// What a double holds may be 0, 1 or infinite as the float that kernels compute with.
TEST(JobFile, NumbersAreCheckedAsTheFloatsThatKernelsUse) {
  const std::string momentum = "{name: momentum, learningRate: 0.02, momentum: 0.9}";
  for (const std::string bad : {"1e-46", "1e-38", "1e31", "1e39"}) {
    EXPECT_THAT(OnlyError(With("learningRate: 0.02", "learningRate: " + bad)),
                HasSubstr("learningRate: is " + bad + ", but must be between 1e-37 and 1e30, since it is computed"));
    EXPECT_THAT(OnlyError(With(momentum, "{name: adam, epsilon: " + bad + "}")),
                HasSubstr("j.yaml:11:36: training.optimizer.epsilon: is " + bad + ", but must be between"));
  }
  for (const std::string bad : {"0", "9e-17", "1e31"}) {
    for (const std::string key : {"adam, epsilon", "rmsprop, epsilon", "adagrad, epsilon", "ftrl, beta"}) {
      EXPECT_THAT(OnlyError(With(momentum, "{name: " + key + ": " + bad + "}")),
                  HasSubstr(", but must be between 1e-16 and 1e30, since squares of gradients below 1e-19 count as 0"));
    }
  }
  for (const std::string good : {"1e-37", "1e30"}) {
    EXPECT_THAT(ErrorsOf(With(momentum, "{name: adam, learningRate: " + good + ", epsilon: 1e-16}")), IsEmpty());
  }
  for (const std::string key : {"momentum, momentum", "adam, beta1", "adam, beta2"}) {
    EXPECT_THAT(OnlyError(With(momentum, "{name: " + key + ": 0.99999999}")),
                HasSubstr("is 0.99999999, but must be at least 0 and below 1, as a 32-bit float too"));
    EXPECT_THAT(ErrorsOf(With(momentum, "{name: " + key + ": 0.99999997}")), IsEmpty());
  }
}

TEST(JobFile, DurationsHaveUnits) {
  using std::chrono::nanoseconds;
  const std::pair<const char*, int64_t> good[] = {{"0", 0},
                                                  {"0s", 0},
                                                  {"500ms", 500'000'000},
                                                  {"1.5s", 1'500'000'000},
                                                  {"5m", 300'000'000'000},
                                                  {"2h", 7'200'000'000'000},
                                                  {"7us", 7'000},
                                                  {"3ns", 3}};
  for (const auto& [text, ns] : good) {
    const JobFileResult result = ParseJob(With("every: 30s", std::string("every: ") + text), "j.yaml");
    EXPECT_TRUE(result.ok()) << text;
    EXPECT_EQ(result.job.checkpoint.every, nanoseconds(ns)) << text;
  }
  for (const std::string bad : {"30", "30 sec", "s", "-1s", "1d", "1e3s", "[1s]", "1.2.3s", "1001h"}) {
    EXPECT_THAT(OnlyError(With("every: 30s", "every: " + bad)), HasSubstr("checkpoint.every: ")) << bad;
  }
  EXPECT_THAT(OnlyError(With("every: 30s", "every: 30")), HasSubstr("without a unit"));
}

TEST(JobFile, CheckpointsAreAsOftenAsIsBestUnlessTheFileSaysHowOften) {
  EXPECT_EQ(ParseJob(With("every: 30s, ", ""), "j.yaml").job.checkpoint.every, std::nullopt);
  const JobFileResult result = ParseJob(kJob, "j.yaml", {"checkpoint.every=auto"});
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.job.checkpoint.every, std::nullopt);
  for (const std::string bad : {"Auto", "automatic", "[auto]", "{auto: 1}"}) {
    EXPECT_THAT(OnlyError(With("every: 30s", "every: " + bad)),
                HasSubstr("checkpoint.every: must be auto or a duration such as"))
        << bad;
  }
  EXPECT_THAT(ErrorsOf(kJob, {"timing.serverWait=auto"}), ElementsAre(HasSubstr("must be a duration such as")));
}

TEST(JobFile, OptimizerSettingsBelongToTheirOptimizer) {
  EXPECT_THAT(OnlyError(With("{name: momentum,", "{name: sgd,")),
              HasSubstr("means something only with name: momentum or nesterov, but name is sgd"));
  EXPECT_THAT(OnlyError(With(", momentum: 0.9", ", beta1: 0.9")),
              HasSubstr("only with name: adam or adamw, but name is momentum"));
  EXPECT_THAT(OnlyError(With("{name: momentum,", "{name: adm,")), HasSubstr("did you mean adam?"));
}

}  // namespace
}  // namespace downpour
