// The options that say which job, through `check` and `config show`.
#include "tools/cli/job_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "runtime/posix/process.h"
#include "runtime/process/cluster_environment.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr char kSmallJob[] = R"(name: small
cluster: {workerCount: 4, parameterServerCount: 2}
model: {inputs: [{name: i, shape: [4]}], layers: [{dense: {units: 2}}]}
data: {train: {images: a, labels: b}}
)";
constexpr char kConfig[] = R"(trainingInput:
  scaleTier: CUSTOM
  masterType: n1-standard-4
  workerCount: 2
  parameterServerCount: 3
  args: [--set, seed=5]
)";

class JobOptionsTest : public testing::Test {
 protected:
  JobOptionsTest()
      : job_(FreshFolder("job_options") + "/job.yaml"), config_(FreshFolder("job_config") + "/config.yaml") {
    PutFile(job_, kSmallJob);
    PutFile(config_, kConfig);
  }
  ~JobOptionsTest() override { unsetenv("TF_CONFIG"); }

  std::string Check(std::vector<std::string> options) {
    options.insert(options.begin(), {"check", job_});
    const ToolOutcome outcome = RunDownpour(options);
    EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
    return outcome.out;
  }

  // Of Python code with one variable and 9 examples.
  JobOptions OptionsOfCode() const {
    JobOptions options;
    options.job_file = job_;
    options.of_code.entries = {absl::StrCat("python={module: m, bytes: 3, sha256: ", std::string(64, 'a'), "}"),
                               "model.variables=[{name: v, shape: [2]}]", "model.initializeFrom=/f",
                               "data={format: python, trainExamples: 9}"};
    return options;
  }
  static std::string ErrorsOf(const JobOptions& options) {
    std::ostringstream out, err;
    LoadChosenJob(options, "check", {out, err});
    return err.str();
  }

  const std::string job_, config_;
};

TEST_F(JobOptionsTest, AMetricThatTheCodeDoesNotComputeIsRefused) {
  const auto errors = [&](const std::string& metrics, const std::vector<std::string>& known) {
    PutFile(job_, "name: own\ntraining:\n  metrics: " + metrics + "\n");
    JobOptions options = OptionsOfCode();
    options.of_code.metrics = known;
    return ErrorsOf(options);
  };
  EXPECT_EQ(errors("[top2]", {"top2", "f1"}), "");
  EXPECT_THAT(errors("[top2, auc]", {"top2", "f1"}),
              HasSubstr("job.yaml:3: training.metrics: the Python code computes no metric auc, only top2, f1; leave it "
                        "out, or give downpour.fit a function"));
  EXPECT_THAT(errors("[auc]", {}), HasSubstr("the Python code computes no metric auc, and no other; leave it out"));
}

TEST_F(JobOptionsTest, APushOfMoreExamplesThanAWorkerMayAskForIsRefused) {
  PutFile(job_, "name: own\n");
  const auto errors = [&](int push_every) {
    JobOptions options = OptionsOfCode();
    options.of_code.entries.back() = "data={format: python, trainExamples: 9000000}";
    options.settings = {"training.batchSize=1000", "training.leaseBatches=4000",
                        absl::StrCat("training.pushEvery=", push_every)};
    return ErrorsOf(options);
  };
  EXPECT_EQ(errors(2000), "");
  EXPECT_THAT(errors(3000), HasSubstr("--set: training.pushEvery: a push of 3000000 examples takes a question of up to "
                                      "23.0 MiB to the Python code, which hears 16.0 MiB at most; take fewer batches"));
}

TEST_F(JobOptionsTest, AConfigsSectionDownpourBeatsTheJobFileAndIsBeatenBySet) {
  PutFile(config_, "downpour:\n  training: {epochs: 7, batchSize: 5}\n  checkpoint.every: 30s\n");
  EXPECT_THAT(Check({"--config", config_, "--set", "training.batchSize=6"}),
              AllOf(HasSubstr("7 epochs"), HasSubstr("batches of 6"), HasSubstr("30 s")));
  PutFile(config_, "downpour:\n  training: {epoch: 7}\n");
  const ToolOutcome outcome = RunDownpour({"check", job_, "--config", config_});
  EXPECT_THAT(outcome.err, HasSubstr(config_ + ":2: training.epoch: unknown key; did you mean epochs?"));
}

TEST_F(JobOptionsTest, ABatchOfOneIsRefusedWhereTheCodeNeedsTwo) {
  PutFile(job_, "name: own\n");
  const auto errors = [&](int batch_size, bool takes_one_example) {
    JobOptions options = OptionsOfCode();
    options.settings = {absl::StrCat("training.batchSize=", batch_size)};
    options.of_code.takes_one_example = takes_one_example;
    return ErrorsOf(options);
  };
  EXPECT_THAT(errors(4, false), HasSubstr("--set: training.batchSize: with 4 of 9 examples there are batches of one "
                                          "example, and the model's batch norm needs 2 or more to train; take an"));
  for (const int size : {1, 2, 8}) EXPECT_THAT(errors(size, false), HasSubstr("batches of one example")) << size;
  for (const int size : {3, 5, 9, 10}) EXPECT_EQ(errors(size, false), "") << size;
  EXPECT_EQ(errors(4, true), "");
}

TEST_F(JobOptionsTest, AJobFileWithoutAModelIsToldHowPythonCodeIsNamed) {
  PutFile(job_, "name: own\ncluster: {workerCount: 2, parameterServerCount: 1}\n");
  const std::string remedy =
      "model: is missing; write it into the file, or, where Python code makes it, give "
      "--module-name trainer.task --package-path trainer";
  for (const char* verb : {"check", "run", "stage", "doctor"}) {
    std::vector<std::string> words = {verb, job_};
    if (std::string(verb) == "stage") words.insert(words.end(), {"--job-dir", FreshFolder("staged")});
    EXPECT_THAT(RunDownpour(words).err, HasSubstr(remedy + "\n")) << verb;
  }
  EXPECT_THAT(RunDownpour({"config", "show", job_}).err, HasSubstr(remedy + " to downpour check\n"));
  EXPECT_THAT(RunDownpour({"jobs", "submit", "own", "--root", FreshFolder("root"), "--file", job_}).err,
              HasSubstr(remedy + ", and no --file\n"));
  PutFile(job_, "name: own\nmodel: {layers: 3}\n");
  EXPECT_THAT(RunDownpour({"check", job_}).err, Not(HasSubstr("--module-name"))) << "it has one, which is wrong";
}

TEST_F(JobOptionsTest, TiersMayBeSpeltAsGcloudDoes) {
  EXPECT_THAT(Check({"--scale-tier", "standard-1"}), HasSubstr("STANDARD_1: 1 chief, 3 parameter servers, 5 workers"));
  EXPECT_THAT(Check({"--scale-tier=PREMIUM_1"}), HasSubstr("1 chief, 11 parameter servers, 20 workers"));
  EXPECT_THAT(Check({"--scale-tier=basic"}), HasSubstr("1 chief, 1 parameter server, 1 worker"));
  EXPECT_THAT(Check({"--scale-tier=custom"}), HasSubstr("1 chief, 2 parameter servers, 4 workers"));
  const ToolOutcome outcome = RunDownpour({"check", job_, "--scale-tier", "premium1"});
  EXPECT_EQ(outcome.code, kExitBadCommandLine);
  EXPECT_THAT(outcome.err, HasSubstr("there is no tier premium1, only BASIC, STANDARD_1, PREMIUM_1, CUSTOM, BASIC_GPU, "
                                     "BASIC_TPU; did you mean PREMIUM_1?"));
}

TEST_F(JobOptionsTest, ATierOfOtherMachinesIsTakenAsAConfigFilesIs) {
  EXPECT_THAT(Check({"--scale-tier=basic-gpu"}), HasSubstr("1 chief, 1 parameter server, 1 worker"));
  EXPECT_THAT(RunDownpour({"check", job_, "--scale-tier=BASIC_TPU"}).err,
              HasSubstr("warning: --scale-tier: BASIC_TPU runs as BASIC, without a TPU\n"));
  EXPECT_THAT(RunDownpour({"check", job_, "--scale-tier=basic"}).err, Not(HasSubstr("warning")));
}

TEST_F(JobOptionsTest, WhatIsNoSettingIsAMistakeOfTheCommandLine) {
  for (const char* word : {"foo", "=3", ".=3", "training.=3", "training..epochs=3"}) {
    const ToolOutcome outcome = RunDownpour({"check", job_, "--set", word});
    EXPECT_EQ(outcome.code, kExitBadCommandLine) << word;
    EXPECT_THAT(outcome.err, HasSubstr(std::string(word) + " is not of the form training.epochs=3"));
  }
  EXPECT_EQ(RunDownpour({"check", job_, "--set", "training.epoch=3"}).code, kExitBadJobFile) << "it may be the file's";
  Check({"--set", "seed="});
}

TEST_F(JobOptionsTest, AConfigFileBeatsTheJobAndIsBeatenByFlags) {
  EXPECT_THAT(Check({"--config", config_}), AllOf(HasSubstr("3 parameter servers, 3 workers"), HasSubstr("seed 5")));
  EXPECT_THAT(Check({"--config", config_, "--scale-tier=basic"}), HasSubstr("1 parameter server, 1 worker"));
  EXPECT_THAT(Check({"--config", config_, "--set", "cluster.workerCount=8"}),
              HasSubstr("3 parameter servers, 8 workers"));
  const ToolOutcome outcome = RunDownpour({"check", job_, "--config", config_});
  EXPECT_THAT(outcome.err, HasSubstr("downpour check: warning: " + config_ +
                                     ":3:15: trainingInput.masterType: has no meaning here"));
}

TEST_F(JobOptionsTest, ErrorsOfBothFilesAreTold) {
  PutFile(job_, std::string(kSmallJob) + "epoch: 3\n");
  PutFile(config_, "trainingInput: {scaleTier: HUGE}");
  const ToolOutcome outcome = RunDownpour({"check", job_, "--config", config_});
  EXPECT_EQ(outcome.code, kExitBadJobFile);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("trainingInput.scaleTier"), HasSubstr("epoch: unknown key"), HasSubstr("2 errors")));
  EXPECT_EQ(RunDownpour({"check", job_, "--config", "/nowhere"}).code, kExitBadJobFile);
}

TEST_F(JobOptionsTest, ConfigShowSaysWhichWon) {
  setenv("TF_CONFIG",
         R"({"cluster":{"chief":["h0:1"],"ps":["127.0.0.1:2"],"worker":["h1:1"]},"task":{"type":"ps","index":0}})", 1);
  EXPECT_THAT(RunDownpour({"config", "show", "--origin"}).out,
              AllOf(ContainsRegex("role +ps +TF_CONFIG"), ContainsRegex("chief +h0:1 +TF_CONFIG"),
                    ContainsRegex("listen +127.0.0.1:2 +TF_CONFIG")));
  EXPECT_THAT(RunDownpour({"config", "show", "--origin", "--chief=f:1", "--index", "0"}).out,
              AllOf(ContainsRegex("chief +f:1 +--chief"), ContainsRegex("index +0 +--index")));
  EXPECT_THAT(RunDownpour({"config", "show", "--origin", "--cluster=none"}).out,
              AllOf(ContainsRegex("role +worker +default"), ContainsRegex("index +-1 +default")));
  const ToolOutcome wrong = RunDownpour({"config", "show", "--role=worker"});
  EXPECT_EQ(wrong.code, kExitBadCommandLine);
  EXPECT_THAT(wrong.err, HasSubstr("says that this task is ps 0, not a worker"));
}

TEST_F(JobOptionsTest, ConfigShowFollowsTheJobsEntriesToTheirPlaces) {
  setenv("TF_CONFIG",
         R"({"cluster":{"chief":["127.0.0.1:1"],"ps":["h1:1"],"worker":["h2:1"]},"task":{"type":"chief"}})", 1);
  const std::string text = RunDownpour({"config", "show", job_, "--set=training.epochs=3", "--origin"}).out;
  EXPECT_THAT(text,
              AllOf(ContainsRegex("listen +127.0.0.1:1 +TF_CONFIG"), ContainsRegex("cluster.workerCount +1 +TF_CONFIG"),
                    ContainsRegex("training.epochs +3 +--set"), ContainsRegex("training.batchSize +64 +default"),
                    ContainsRegex("name +small +" + job_ + ":1")));
  EXPECT_THAT(RunDownpour({"config", "show", job_, "--set=cluster.workerCount=7", "--origin"}).out,
              AllOf(ContainsRegex("cluster.workerCount +7 +--set"),
                    ContainsRegex("cluster.parameterServerCount +1 +TF_CONFIG")));
  EXPECT_THAT(
      RunDownpour({"config", "show", job_, "--set=cluster={workerCount: 7}", "--origin"}).out,
      AllOf(ContainsRegex("cluster.workerCount +7 +--set"), ContainsRegex("cluster.parameterServerCount +1 +default")));
  EXPECT_THAT(RunDownpour({"config", "show", job_}).out, Not(HasSubstr("TF_CONFIG")));
}

TEST_F(JobOptionsTest, ConfigShowSaysWhereTheRoleItselfWouldRefuse) {
  // As far as this host's own file of names tells.
  std::string endpoint;
  for (const std::string& name : {HostName(), std::string("ip6-localhost"), std::string("localhost.localdomain")}) {
    std::ifstream hosts("/etc/hosts");
    if (!CheckOwnEndpoint({name + ":1", ""}, hosts).ok()) endpoint = name + ":1";
  }
  if (endpoint.empty()) GTEST_SKIP() << "no name here means loopback alone";
  setenv("TF_CONFIG", (R"({"cluster":{"chief":[")" + endpoint + R"("]},"task":{"type":"chief"}})").c_str(), 1);
  const ToolOutcome outcome = RunDownpour({"config", "show"});
  EXPECT_EQ(outcome.code, kExitDone);
  EXPECT_THAT(outcome.err,
              HasSubstr("warning: the role would refuse this: TF_CONFIG says that this task is at " + endpoint));
  EXPECT_THAT(outcome.out, ContainsRegex("listen +" + endpoint));
  EXPECT_EQ(RunDownpour({"config", "show", "--listen=127.0.0.1:1"}).err, "");
}

TEST_F(JobOptionsTest, ConfigShowAsksNobodyForNames) {
  setenv("TF_CONFIG", R"({"cluster":{"chief":["no-such-host.invalid:1"]},"task":{"type":"chief"}})", 1);
  EXPECT_EQ(RunDownpour({"config", "show"}).err, "");
}

TEST_F(JobOptionsTest, ConfigShowNamesTheConfigFileAndTheTierWithItsCounts) {
  const auto show = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"config", "show", job_, "--config", config_, "--origin"});
    return RunDownpour(more).out;
  };
  EXPECT_THAT(show({}), AllOf(ContainsRegex("cluster.scaleTier +CUSTOM +" + config_ + ":2\n"),
                              ContainsRegex("cluster.workerCount +3 +" + config_ + ":4\n"),
                              ContainsRegex("cluster.parameterServerCount +3 +" + config_ + ":5\n"),
                              ContainsRegex("seed +5 +" + config_ + ":6\n")));
  EXPECT_THAT(show({"--set=seed=6", "--scale-tier=standard-1"}),
              AllOf(ContainsRegex("cluster.scaleTier +STANDARD_1 +--scale-tier"),
                    ContainsRegex("cluster.workerCount +5 +--scale-tier"),
                    ContainsRegex("cluster.parameterServerCount +3 +--scale-tier"), ContainsRegex("seed +6 +--set")));
  PutFile(config_, "trainingInput: {args: [--set, seed=x]}");
  EXPECT_THAT(RunDownpour({"check", job_, "--config", config_}).err, HasSubstr(config_ + ":1: seed: "));
}

TEST_F(JobOptionsTest, ConfigShowAsJsonIsAJobFileThatNeedsNoOther) {
  const ToolOutcome first = RunDownpour({"config", "show", job_, "--set=training.epochs=3", "-o", "json"});
  EXPECT_EQ(first.code, kExitDone) << first.err;
  PutFile(config_, first.out);
  EXPECT_EQ(RunDownpour({"config", "show", config_, "-o", "json"}).out, first.out);
}

TEST_F(JobOptionsTest, ConfigShowNeedsAGoodEnvironment) {
  setenv("TF_CONFIG", "{", 1);
  const ToolOutcome outcome = RunDownpour({"config", "show"});
  EXPECT_EQ(outcome.code, kExitBadCommandLine);
  EXPECT_THAT(outcome.err, HasSubstr("TF_CONFIG:1:"));
}

}  // namespace
}  // namespace downpour
