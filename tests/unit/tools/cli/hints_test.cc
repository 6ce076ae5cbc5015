#include "tools/cli/hints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What is said to a command line that is wrong.
std::string Said(std::vector<std::string> args) {
  const ToolOutcome outcome = RunDownpour(std::move(args));
  EXPECT_EQ(outcome.code, kExitBadCommandLine);
  return outcome.err;
}

TEST(HintsTest, AVerbOfOtherToolsLeadsToOurs) {
  for (const auto& [word, verb] : {std::pair("train", "run"),
                                   {"fit", "run"},
                                   {"launch", "run"},
                                   {"kill", "stop"},
                                   {"resize", "scale"},
                                   {"ps", "status"}}) {
    EXPECT_THAT(Said({word, "job.yaml"}),
                HasSubstr(std::string("; did you mean ") + verb + "?\nTry: downpour help " + verb + "\n"));
  }
  EXPECT_THAT(Said({"resume", "job.yaml"}), HasSubstr("; did you mean run --resume?\nTry: downpour help run\n"));
  EXPECT_THAT(Said({"start"}), HasSubstr("; did you mean run (with --resume it continues a job)?\n"));
  EXPECT_THAT(Said({"stauts"}), HasSubstr("did you mean status?"));
  EXPECT_THAT(Said({"xyzzy"}), AllOf(Not(HasSubstr("did you mean")), HasSubstr("Try: downpour help\n")));
}

TEST(HintsTest, EveryVerbThatIsMeantIsThere) {
  const std::vector<std::string> none;
  for (const char* word : {"train", "kill", "resize", "info", "top", "tail", "validate", "diagnose", "test", "save",
                           "checkpoints", "download", "keygen", "audit"}) {
    EXPECT_THAT(Said({word}), HasSubstr("did you mean ")) << word;
    EXPECT_EQ(VerbMeant(word, none), "") << "a verb that is not there is not named";
  }
}

TEST(HintsTest, AFlagOfOtherTrainersLeadsToAnEntryOfTheJobFile) {
  EXPECT_THAT(Said({"run", "job.yaml", "--epochs", "3"}), HasSubstr("; did you mean --set training.epochs=3?"));
  EXPECT_THAT(Said({"run", "--epochs", "3", "job.yaml"}),
              HasSubstr("downpour run: there is no option --epochs; did you mean --set training.epochs=3?"));
  EXPECT_THAT(Said({"run", "job.yaml", "--lr=0.1"}), HasSubstr("--set training.optimizer.learningRate=0.1?"));
  EXPECT_THAT(Said({"run", "job.yaml", "--learning_rate", "0.1"}),
              HasSubstr("--set training.optimizer.learningRate=0.1?"));
  EXPECT_THAT(Said({"check", "job.yaml", "--batch-size"}), HasSubstr("--set training.batchSize=VALUE?"));
  EXPECT_THAT(Said({"run", "job.yaml", "--workers", "--quiet"}), HasSubstr("--set cluster.workerCount=VALUE?"));
  EXPECT_THAT(Said({"run", "job.yaml", "--num-ps", "2"}), HasSubstr("--set cluster.parameterServerCount=2?"));
  EXPECT_THAT(Said({"run", "job.yaml", "--seed=7"}), HasSubstr("--set seed=7?"));
  EXPECT_THAT(Said({"run", "job.yaml", "--push-every=7"}), HasSubstr("--set training.pushEvery=7?"));
}

TEST(HintsTest, WhatFollowsDashesNeedsAModule) {
  EXPECT_THAT(Said({"run", "job.yaml", "3"}), HasSubstr("3 has no meaning here: what follows -- goes to the Python"));
  EXPECT_THAT(Said({"run", "job.yaml", "--", "--learning_rate", "3"}), HasSubstr("--learning_rate has no meaning here"))
      << "its own flags keep their underscores";
  EXPECT_THAT(Said({"run", "job.yaml", "--module_name", "trainer.task", "--epochs", "3"}),
              HasSubstr("there is no option --epochs"))
      << "without -- it is not the module's";
}

TEST(HintsTest, AFlagThatTheVerbHasUnderAnotherNameComesFirst) {
  EXPECT_THAT(Said({"run", "job.yaml", "--output-dir", "x"}), HasSubstr("did you mean --job-dir?"));
  EXPECT_THAT(Said({"run", "job.yaml", "--jobdirr", "x"}), HasSubstr("did you mean --job-dir?"));
  EXPECT_THAT(Said({"scale", "--num-workers", "3"}), HasSubstr("did you mean --workers?"));
  EXPECT_THAT(Said({"status", "--host", "h0:1"}), HasSubstr("did you mean --chief?"));
  EXPECT_THAT(Said({"status", "--epochs", "3"}), Not(HasSubstr("--set"))) << "it has none";
}

}  // namespace
}  // namespace downpour
