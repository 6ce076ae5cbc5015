#include "job/job_training_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/job_file.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Outcome {
  TrainingInput input;
  std::vector<std::string> errors;
  std::vector<std::string> warnings;
};
Outcome Read(const std::string& text) {
  JobErrors errors("config.yaml");
  Outcome outcome{.input = ReadTrainingInput(ReadYaml(text).root, "config.yaml", errors), .errors = {}, .warnings = {}};
  for (const JobError& error : errors.Take()) outcome.errors.push_back(ToString(error));
  for (const JobError& warning : outcome.input.warnings) outcome.warnings.push_back(ToString(warning));
  return outcome;
}
std::vector<std::string> EntriesOf(const std::vector<PlacedEntry>& placed) {
  std::vector<std::string> entries;
  for (const PlacedEntry& each : placed) entries.push_back(each.entry);
  return entries;
}
std::vector<std::string> Settings(const std::string& fields) {
  const Outcome outcome = Read("trainingInput: {" + fields + "}");
  EXPECT_THAT(outcome.errors, IsEmpty()) << fields;
  return EntriesOf(outcome.input.cluster_and_scheduling);
}

// As the service's own documentation has them.
constexpr char kCustom[] = R"(trainingInput:
  scaleTier: CUSTOM
  masterType: n1-highcpu-16
  workerType: n1-highcpu-16
  parameterServerType: n1-highmem-8
  evaluatorType: n1-highcpu-16
  workerCount: 9
  parameterServerCount: 3
  evaluatorCount: 1
  jobDir: runs/first
  region: us-central1
  args: [--set, training.epochs=3, "--set=seed=7"]
  scheduling: {maxRunningTime: 7200s, priority: 10}
)";

TEST(TrainingInput, CountsBecomeACluster) {
  const Outcome outcome = Read(kCustom);
  EXPECT_THAT(outcome.errors, IsEmpty());
  EXPECT_THAT(EntriesOf(outcome.input.cluster_and_scheduling),
              ElementsAre("cluster={scaleTier: CUSTOM}", "cluster.workerCount=10", "cluster.parameterServerCount=3",
                          "scheduling={maxRunningTime: 7200000000000ns}"));
  EXPECT_THAT(EntriesOf(outcome.input.arguments), ElementsAre("training.epochs=3", "seed=7"));
  EXPECT_EQ(outcome.input.job_dir, "runs/first");
}

TEST(TrainingInput, TextIsAsItWasWritten) {
  const Outcome outcome = Read("trainingInput: {jobDir: 007, pythonModule: 1e3, packageUris: [2.10, True]}");
  EXPECT_THAT(outcome.errors, IsEmpty());
  EXPECT_EQ(outcome.input.job_dir, "007");
  EXPECT_EQ(outcome.input.code.module, "1e3");
  EXPECT_THAT(EntriesOf(outcome.input.code.packages), ElementsAre("2.10", "True"));
}

TEST(TrainingInput, EachEntryHasTheLineThatSaysIt) {
  const auto lines = [](const std::string& text) {
    std::vector<int> found;
    for (const PlacedEntry& placed : Read(text).input.cluster_and_scheduling) found.push_back(placed.line);
    return found;
  };
  EXPECT_THAT(lines(kCustom), ElementsAre(2, 7, 8, 13));
  EXPECT_EQ(Read(kCustom).input.arguments[0].line, 12);
  EXPECT_THAT(lines("trainingInput:\n  workerCount: 3\n  maxRunningTime: 60s\n"), ElementsAre(2, 2, 2, 3))
      << "what it does not say it says as a whole";
}

TEST(TrainingInput, WhatHasNoMeaningHereIsNamedWithItsPlace) {
  EXPECT_THAT(
      Read(kCustom).warnings,
      testing::UnorderedElementsAre(
          HasSubstr("config.yaml:3:15: trainingInput.masterType: has no meaning here"),
          HasSubstr("trainingInput.workerType"), HasSubstr("trainingInput.parameterServerType"),
          HasSubstr("trainingInput.evaluatorType"), HasSubstr("evaluatorCount: has no meaning here: the workers"),
          HasSubstr("trainingInput.region"), HasSubstr("trainingInput.scheduling.priority")));
}

TEST(TrainingInput, TiersAreOurs) {
  for (const char* tier : {"BASIC", "STANDARD_1", "PREMIUM_1"}) {
    EXPECT_THAT(Settings(std::string("scaleTier: ") + tier),
                ElementsAre(std::string("cluster={scaleTier: ") + tier + "}"));
  }
  const Outcome gpu = Read("trainingInput: {scaleTier: BASIC_GPU}");
  EXPECT_THAT(EntriesOf(gpu.input.cluster_and_scheduling), ElementsAre("cluster={scaleTier: BASIC}"));
  EXPECT_THAT(gpu.warnings, ElementsAre(HasSubstr("BASIC_GPU runs as BASIC")));
}

TEST(TrainingInput, CountsMayBeTextAndMayBeAbsent) {
  EXPECT_THAT(Settings("scaleTier: CUSTOM, workerCount: '4', parameterServerCount: \"2\""),
              ElementsAre("cluster={scaleTier: CUSTOM}", "cluster.workerCount=5", "cluster.parameterServerCount=2"));
  EXPECT_THAT(Settings("scaleTier: CUSTOM"),
              ElementsAre("cluster={scaleTier: CUSTOM}", "cluster.workerCount=1", "cluster.parameterServerCount=1"));
  EXPECT_THAT(Settings("region: x"), IsEmpty());
}

TEST(TrainingInput, TheOldPlaceOfMaxRunningTimeIsKnown) {
  const Outcome outcome = Read("trainingInput: {scaleTier: BASIC, maxRunningTime: 60s}");
  EXPECT_THAT(EntriesOf(outcome.input.cluster_and_scheduling),
              testing::Contains("scheduling={maxRunningTime: 60000000000ns}"));
  EXPECT_THAT(outcome.warnings, ElementsAre(HasSubstr("its place is scheduling.maxRunningTime")));
  EXPECT_THAT(Settings("maxRunningTime: 60s, scheduling: {maxRunningTime: 1.5s}"),
              ElementsAre("scheduling={maxRunningTime: 1500000000ns}"));
}

TEST(TrainingInput, ArgumentsOfOtherProgramsAndBucketsAreWarnedOf) {
  const Outcome outcome = Read("labels: {a: b}\ntrainingInput: {args: [--batch-size, 64], jobDir: 'gs://bucket/x'}");
  EXPECT_THAT(outcome.errors, IsEmpty());
  EXPECT_THAT(outcome.warnings, ElementsAre(HasSubstr("labels"), HasSubstr("args.0: has no meaning here: --batch-size"),
                                            HasSubstr("args.1"), HasSubstr("jobDir")));
  EXPECT_EQ(outcome.input.job_dir, "");
}

TEST(TrainingInput, APythonModuleHasItsPackagesAndArguments) {
  const Outcome outcome = Read(R"(trainingInput:
  pythonModule: trainer.task
  packageUris:
  - dist/trainer-1.0.tar.gz
  - file:///wheels/common-1.0-py3-none-any.whl
  args: [--epochs, 2, --set, x=3]
  jobDir: out
)");
  EXPECT_THAT(outcome.errors, IsEmpty());
  EXPECT_THAT(outcome.warnings, IsEmpty());
  const TrainingCode& code = outcome.input.code;
  EXPECT_EQ(code.module, "trainer.task");
  EXPECT_THAT(EntriesOf(code.packages),
              ElementsAre("dist/trainer-1.0.tar.gz", "file:///wheels/common-1.0-py3-none-any.whl"));
  EXPECT_EQ(code.packages[1].line, 5);
  EXPECT_THAT(code.args, ElementsAre("--epochs", "2", "--set", "x=3"));
  EXPECT_THAT(outcome.input.arguments, IsEmpty()) << "they are the module's own";
  EXPECT_TRUE(code.has_job_dir);
  EXPECT_EQ(outcome.input.job_dir, "out");
  EXPECT_FALSE(Read("trainingInput: {packageUris: []}").input.code.has_job_dir);
}

TEST(TrainingInput, ArgumentsAreTheModulesThatTheCommandLineNames) {
  JobErrors errors("config.yaml");
  const std::string text = "trainingInput: {args: [--set, a=b]}";
  const TrainingInput input = ReadTrainingInput(ReadYaml(text).root, "config.yaml", errors, /*has_module=*/true);
  EXPECT_THAT(input.code.args, ElementsAre("--set", "a=b"));
  EXPECT_THAT(input.arguments, IsEmpty());
}

TEST(TrainingInput, PackagesThatAreNoListOfTextAreErrors) {
  EXPECT_THAT(Read("trainingInput: {packageUris: a.whl}").errors, ElementsAre(HasSubstr("packageUris")));
  EXPECT_THAT(Read("trainingInput: {packageUris: [[a]]}").errors, ElementsAre(HasSubstr("packageUris.0")));
}

TEST(TrainingInput, EveryErrorIsReportedAtOnceWithItsPlace) {
  EXPECT_THAT(
      Read(R"(trainingInput:
  scaleTier: PREMIUM1
  workerCont: 3
  workerCount: -1
  parameterServerCount: [2]
  args: {a: b}
  scheduling: {maxRunningTime: 60, maxTime: 3}
)")
          .errors,
      ElementsAre(AllOf(HasSubstr("config.yaml:2:14: trainingInput.scaleTier"), HasSubstr("PREMIUM_1")),
                  HasSubstr("3:3: trainingInput.workerCont: unknown key; did you mean workerCount?"),
                  HasSubstr("trainingInput.workerCount: is -1"), HasSubstr("trainingInput.parameterServerCount: must"),
                  HasSubstr("trainingInput.args: must be a list"),
                  HasSubstr("trainingInput.scheduling.maxRunningTime: must be a duration"),
                  HasSubstr("trainingInput.scheduling.maxTime: unknown key")));
  EXPECT_THAT(Read("trainingInput: {scaleTier: BASIC, workerCount: 3}").errors,
              ElementsAre(HasSubstr("workerCount: means something only with scaleTier CUSTOM")));
  EXPECT_THAT(Read("trainingInput: {args: [--set]}").errors, ElementsAre(HasSubstr("needs KEY=VALUE after it")));
  EXPECT_THAT(Read("trainingInput: {args: [[]]}").errors, ElementsAre(HasSubstr("args.0: must be a word")));
  EXPECT_THAT(Read("jobId: x").errors, ElementsAre(HasSubstr("trainingInput: is missing")));
  EXPECT_FALSE(Read("trainingInput: 3").errors.empty());
}

// ---- In the place of cluster and scheduling in a job file -----------------------------------------------------------

constexpr char kRest[] = R"(
model: {inputs: [{name: i, shape: [4]}], layers: [{dense: {units: 2}}]}
data: {train: {images: a, labels: b}}
)";

TEST(TrainingInput, StandsInAJobFile) {
  const std::string text = std::string("jobId: first\n") + kCustom + kRest;
  const JobFileResult result = ParseJob(text, "config.yaml", {"seed=9"});
  ASSERT_TRUE(result.ok()) << ToString(result.errors[0]);
  EXPECT_EQ(result.job.name, "first");
  EXPECT_EQ(result.job.cluster, (ClusterSpec{"CUSTOM", 10, 3}));
  EXPECT_EQ(result.job.scheduling.max_running_time, std::chrono::hours(2));
  EXPECT_EQ(result.job.training.epochs, 3);
  EXPECT_EQ(result.job.seed, 9u);  // a flag beats the file
  EXPECT_EQ(result.job_dir, "runs/first");
  EXPECT_EQ(result.warnings.size(), 7u);
  EXPECT_EQ(result.origins.at("cluster.workerCount"), "config.yaml:3");
  EXPECT_EQ(result.origins.at("training.epochs"), "--set");
}

TEST(TrainingInput, FlagsBeatIt) {
  const std::string text = std::string("name: x\ntrainingInput: {scaleTier: STANDARD_1}") + kRest;
  EXPECT_EQ(ParseJob(text, "j").job.cluster, (ClusterSpec{"STANDARD_1", 5, 3}));
  EXPECT_EQ(ParseJob(text, "j", {"cluster={workerCount: 2}"}).job.cluster, (ClusterSpec{"CUSTOM", 2, 1}));
}

TEST(TrainingInput, NothingIsSaidTwice) {
  const std::string text = std::string("name: x\ncluster: {workerCount: 2}\ntrainingInput: {scaleTier: BASIC}") + kRest;
  const JobFileResult result = ParseJob(text, "j");
  ASSERT_EQ(result.errors.size(), 1u);
  EXPECT_THAT(ToString(result.errors[0]), HasSubstr("j:2:10: cluster: is said by trainingInput"));
}

}  // namespace
}  // namespace downpour
