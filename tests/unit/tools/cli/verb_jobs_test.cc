// What `jobs submit` refuses by itself, with the exit codes of `run`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/scratch_folder.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/mnist_job.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class VerbJobsTest : public testing::Test {
 protected:
  ToolOutcome Submit(std::vector<std::string> words) const {
    const std::vector<std::string> verb = {"jobs",   "submit", "first", "--root", folder_.path() + "/jobs",
                                           "--file", job_};
    words.insert(words.begin(), verb.begin(), verb.end());
    return RunDownpour(words);
  }

  const ScratchFolder folder_;
  const std::string job_ = folder_.Write("job.yaml", CanonicalJob(SmallJob()));
};

TEST_F(VerbJobsTest, WordsThatNoModuleGetsAreAMistakeOfTheCommandLine) {
  const ToolOutcome outcome = Submit({"--", "--steps", "3"});
  EXPECT_EQ(outcome.code, kExitBadCommandLine);
  EXPECT_THAT(outcome.err, HasSubstr("--steps has no meaning here: what follows -- goes to the Python module"));
  EXPECT_EQ(RunDownpour({"run", job_, "--", "--steps", "3"}).code, outcome.code);
}

TEST_F(VerbJobsTest, AConfigThatIsNotThereIsNoGoodJobFile) {
  for (const std::vector<std::string>& more : {std::vector<std::string>(), {"--", "--steps", "3"}}) {
    std::vector<std::string> words = {"--config", folder_.path() + "/none.yaml"};
    words.insert(words.end(), more.begin(), more.end());
    const ToolOutcome outcome = Submit(words);
    EXPECT_EQ(outcome.code, kExitBadJobFile);
    EXPECT_THAT(outcome.err, HasSubstr("none.yaml: cannot be read: No such file"));
    words.insert(words.begin(), {"run", job_});
    EXPECT_EQ(RunDownpour(words).code, kExitBadJobFile);
  }
}

TEST_F(VerbJobsTest, WhatWouldNotCountIsRefused) {
  const std::string root = folder_.path() + "/jobs";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--set", "training.epochs"}, "--set training.epochs: say KEY=VALUE"},
      {{"--labels", "noequals"}, "--labels noequals: say KEY=VALUE"},
      {{"--labels", "a=b,Team=a"}, "--labels Team=a: the key must be a lower case letter"},
      {{"--labels", "team=A b"}, "--labels team=A b: the value must be lower case letters"},
      {{"--service", "https://h0:1"}, "--root and --service are two places"}};
  for (const auto& [words, why] : cases) {
    const ToolOutcome outcome = Submit(words);
    EXPECT_EQ(outcome.code, kExitBadCommandLine) << why;
    EXPECT_THAT(outcome.err, HasSubstr(why));
  }
  const ToolOutcome named = RunDownpour({"jobs", "submit", "1a", "--root", root, "--file", job_});
  EXPECT_THAT(named.err, HasSubstr("1a is no name of a job"));
  EXPECT_THAT(RunDownpour({"jobs", "submit", "a", "--root", root}).err, HasSubstr("there is no job: give --file"));
}

TEST_F(VerbJobsTest, WhatCheckWarnsOfIsToldAsWell) {
  const std::vector<std::string> idle = {"--set", "cluster.parameterServerCount=900"};
  std::vector<std::string> submit = {"jobs", "submit", "first", "--service", "http://127.0.0.1:1", "--file", job_};
  submit.insert(submit.end(), idle.begin(), idle.end());
  const ToolOutcome outcome = RunDownpour(submit);
  EXPECT_EQ(outcome.code, kExitFailed) << "nobody listens there";
  EXPECT_THAT(outcome.err, HasSubstr("downpour jobs submit: warning: --set: cluster.parameterServerCount: 900 "
                                     "parameter servers for a model of"));
}

TEST_F(VerbJobsTest, DataThatDoNotFitAreRefusedBeforeTheJobIsInTheQueue) {
  const std::string root = folder_.path() + "/refused", job = folder_.Write("mnist.yaml", MnistJob());
  WritePair(folder_.path() + "/images", folder_.path() + "/labels", 20, 28, 19);
  const ToolOutcome outcome = RunDownpour({"jobs", "submit", "first", "--root", root, "--file", job});
  EXPECT_EQ(outcome.code, kExitBadJobFile);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("data.train.labels: "), HasSubstr("holds 20 images, but "),
                                 HasSubstr("the job's data have errors: mend them first")));
  EXPECT_THAT(RunDownpour({"jobs", "list", "--root", root}).out, Not(HasSubstr("first")));
}

TEST_F(VerbJobsTest, SettingsOfAModuleAreCheckedBeforeItsCodeIsSent) {
  const std::string job = folder_.Write("settings.yaml", "name: a\ntraining: {epoch: 3}");
  const std::vector<std::string> module = {
      "jobs",          "submit", "first",          "--service",   "http://127.0.0.1:1",
      "--module-name", "m",      "--package-path", folder_.path()};
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--file", job}, "settings.yaml:2:12: training.epoch: unknown key; did you mean epochs?"},
      {{"--set", "training.epochs=x"}, "--set: training.epochs: must be a whole number"},
      {{"--config", folder_.Write("c.yaml", "downpour: {training: [1]}")}, "training: must be a map"},
      {{"--config", folder_.Write("e.yaml", "trainingInput: {args: [{}]}")},
       "e.yaml: trainingInput.args must be a list of texts"},
      {{"--config", folder_.Write("d.yaml", "downpour: [1]")}, "d.yaml:1:11: downpour: must be a map"}};
  for (const auto& [words, why] : cases) {
    std::vector<std::string> all = module;
    all.insert(all.end(), words.begin(), words.end());
    const ToolOutcome outcome = RunDownpour(all);
    EXPECT_EQ(outcome.code, kExitBadJobFile) << why;
    EXPECT_THAT(outcome.err, HasSubstr(why));
  }
}

TEST_F(VerbJobsTest, ArgumentsMayFollowLabels) {
  const ToolOutcome outcome = Submit({"--labels", "team=a,kind=b", "--", "--steps", "3"});
  EXPECT_THAT(outcome.err, HasSubstr("--steps has no meaning here")) << "they are the module's, and no option";
}

TEST_F(VerbJobsTest, ThePlaceOfTheCommandLineCountsBeforeThatOfTheEnvironment) {
  const std::string here = folder_.path() + "/here", there = folder_.path() + "/there";
  setenv("DOWNPOUR_JOBS", there.c_str(), 1);
  EXPECT_THAT(RunDownpour({"jobs", "list", "--root", here}).err, HasSubstr("there is no folder " + here));
  EXPECT_THAT(RunDownpour({"jobs", "list"}).err, HasSubstr("there is no folder " + there));
  unsetenv("DOWNPOUR_JOBS");
  EXPECT_THAT(RunDownpour({"jobs", "list"}).err, HasSubstr("say where the jobs are"));
}

}  // namespace
}  // namespace downpour
