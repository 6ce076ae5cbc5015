#include "service/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "job/job_settings.h"
#include "service/training_input.h"
#include "tests/unit/job/job_text.h"

namespace downpour {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

json Posted() {
  return {{"jobId", "wd1"},
          {"trainingInput",
           {{"args", {"--epochs", "2"}},
            {"jobDir", "gs://models/wd1"},
            {"packageUris", {"gs://models/p.tar.gz"}},
            {"pythonModule", "trainer.task"},
            {"pythonVersion", "3.7"},
            {"region", "us-central1"},
            {"scaleTier", "STANDARD_1"}}}};
}

std::string WhyRefused(const json& posted) { return std::string(ReadJob(posted.dump()).status().message()); }

TEST(JobTest, IsShownAsItWasPosted) {
  json posted = Posted();
  posted["labels"] = {{"team", "a"}};
  Job job = ReadJob(posted.dump()).value();
  job.created_ms = 1'700'000'000'123;
  json shown = ResourceOf(job);
  EXPECT_EQ(shown["trainingInput"], posted["trainingInput"]);
  EXPECT_EQ(shown["labels"], posted["labels"]);
  EXPECT_EQ(shown["state"], "QUEUED");
  EXPECT_EQ(shown["createTime"], "2023-11-14T22:13:20.123Z");
  EXPECT_FALSE(shown.contains("startTime"));
  EXPECT_FALSE(shown.contains("errorMessage"));
  const json before = shown["etag"];
  ++job.revision;
  EXPECT_NE(ResourceOf(job)["etag"], before);
  --job.revision;
  ++job.created_ms;
  EXPECT_NE(ResourceOf(job)["etag"], before) << "another job of its name";
}

TEST(JobTest, ARunIsGivenNameAndSizeAlone) {
  const json file = json::parse(JobFileOf(ReadJob(Posted().dump()).value()));
  EXPECT_EQ(file["jobId"], "wd1");
  EXPECT_EQ(file["trainingInput"]["scaleTier"], "STANDARD_1");
  for (const char* key : {"args", "jobDir", "packageUris", "pythonModule"}) {
    EXPECT_FALSE(file["trainingInput"].contains(key)) << key;
  }
  EXPECT_EQ(CoresOf(ReadJob(Posted().dump()).value()), 5 + 3) << "the master trains as well";
}

TEST(JobTest, OfAJobFileItIsTheText) {
  const json posted = {{"jobId", "own"}, {"jobFile", "name: own\ncluster: {workerCount: 3, parameterServerCount: 2}"}};
  const absl::StatusOr<Job> job = ReadJob(posted.dump());
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("model")) << "the file must be whole";
}

// Google's clients stop at a job that has a number where the API has text, and list none of the others.
TEST(JobTest, NumbersInFieldsOfTextAreTakenAsTextAndNullAsNothing) {
  json posted = Posted();
  json& input = posted["trainingInput"];
  input["pythonVersion"] = 3.7;
  input["runtimeVersion"] = 2;
  input["args"] = {"--epochs", 3, "--fast", true, "--name", ""};
  input["masterConfig"] = {{"imageUri", 1.5}, {"tpuTfVersion", nullptr}};
  input["scheduling"] = {{"maxWaitTime", 60}};
  input["region"] = nullptr;
  const absl::StatusOr<Job> job = ReadJob(posted.dump());
  ASSERT_TRUE(job.ok()) << job.status();
  const json shown = ResourceOf(*job)["trainingInput"];
  EXPECT_EQ(shown["pythonVersion"], "3.7");
  EXPECT_EQ(shown["runtimeVersion"], "2");
  EXPECT_EQ(shown["args"], json({"--epochs", "3", "--fast", "true", "--name", ""}));
  EXPECT_EQ(shown["masterConfig"], json({{"imageUri", "1.5"}}));
  EXPECT_EQ(shown["scheduling"], json({{"maxWaitTime", "60"}}));
  EXPECT_FALSE(shown.contains("region"));
}

TEST(JobTest, NumbersInFieldsOfTextStayAsTheyWereWritten) {
  const std::string body =
      R"({"jobId": "a\"2.50", "trainingInput": {"pythonModule": "m", "packageUris": ["gs://b/p"],)"
      R"( "pythonVersion": 2.10, "region": 1e3, "network": -0.50, "args": [1.50, "0.10", "\\", 7],)"
      R"( "workerCount": 1, "scaleTier": "CUSTOM", "scheduling": {"maxWaitTime": 6.0},)"
      R"( "masterConfig": {"imageUri": 1.0, "acceleratorConfig": {"type": 3.0, "count": 2}},)"
      R"( "hyperparameters": {"params": [{"parameterName": "x", "type": "CATEGORICAL",)"
      R"( "categoricalValues": [1.0, 1.00, true]}, {"parameterName": 7, "type": "DOUBLE", "minValue": 0.10,)"
      R"( "maxValue": 1}]}}})";
  json input = json::parse(body)["trainingInput"];
  ASSERT_TRUE(NormaliseTrainingInput(AsWritten(body)["trainingInput"], &input).ok());
  EXPECT_EQ(input["pythonVersion"], "2.10");
  EXPECT_EQ(input["region"], "1e3");
  EXPECT_EQ(input["network"], "-0.50");
  EXPECT_EQ(input["args"], json({"1.50", "0.10", "\\", "7"}));
  EXPECT_EQ(input["scheduling"]["maxWaitTime"], "6.0");
  EXPECT_EQ(input["masterConfig"]["acceleratorConfig"], json({{"type", "3.0"}, {"count", 2}}));
  EXPECT_EQ(input["hyperparameters"]["params"][0]["categoricalValues"], json({"1.0", "1.00", "true"}));
  EXPECT_EQ(input["hyperparameters"]["params"][1]["minValue"], 0.1) << "it is a number's field";
  EXPECT_EQ(input["hyperparameters"]["params"][1]["parameterName"], "7");
  json posted = Posted();
  posted["trainingInput"].erase("runtimeVersion");
  std::string text = posted.dump();
  text.replace(text.find("\"trainingInput\":{"), 17, "\"trainingInput\":{\"runtimeVersion\":2.10,");
  EXPECT_EQ(ResourceOf(ReadJob(text).value())["trainingInput"]["runtimeVersion"], "2.10");
  EXPECT_TRUE(AsWritten("{").is_null());
}

TEST(JobTest, WhatAConfigFileHasInFieldsOfTextIsTheirText) {
  const YamlNode node = ReadYaml(
                            "region: 0x10\npythonVersion: 2.10\nruntimeVersion: 007\nmasterType: 0o7\nnetwork: True\n"
                            "args: [007, 0x1, .5, 1e3, '1', TRUE]\nscheduling: {maxWaitTime: 007}\nworkerCount: 3")
                            .root;
  json input = JsonOf(node);
  ASSERT_TRUE(NormaliseTrainingInput(AsWritten(node), &input).ok());
  EXPECT_EQ(input, json({{"region", "0x10"},
                         {"pythonVersion", "2.10"},
                         {"runtimeVersion", "007"},
                         {"masterType", "0o7"},
                         {"network", "True"},
                         {"args", {"007", "0x1", ".5", "1e3", "1", "TRUE"}},
                         {"scheduling", {{"maxWaitTime", "007"}}},
                         {"workerCount", 3}}));
}

TEST(JobTest, WhatItCannotBeIsRefusedByItsKey) {
  for (const char* name : {"", "1job", "../job", "a-b", "a b", "a.b"}) {
    json posted = Posted();
    posted["jobId"] = name;
    EXPECT_THAT(WhyRefused(posted), HasSubstr("jobId must be a letter")) << name;
  }
  json posted = Posted();
  posted["jobId"] = std::string(129, 'a');
  EXPECT_THAT(WhyRefused(posted), HasSubstr("jobId"));
  const std::pair<const char*, json> wrong[] = {{"args", "x"},
                                                {"args", json::array({json::object()})},
                                                {"args", {std::string("a\0b", 3)}},
                                                {"packageUris", json::array()},
                                                {"pythonModule", ""},
                                                {"pythonModule", json::array()},
                                                {"pythonVersion", json::object()},
                                                {"scaleTier", "HUGE"},
                                                {"jobDir", {"a"}},
                                                {"evaluatorCount", "many"},
                                                {"masterConfig", "n1"},
                                                {"masterConfig", {{"acceleratorConfig", 1}}},
                                                {"workerConfig", {{"imageUri", json::array()}}},
                                                {"scheduling", {{"maxWaitTime", json::array()}}},
                                                {"enableWebAccess", "yes"},
                                                {"workerCount", "-1"},
                                                {"hyperparameters", json::object()}};
  for (const auto& [key, value] : wrong) {
    json changed = Posted();
    changed["trainingInput"][key] = value;
    EXPECT_THAT(WhyRefused(changed), HasSubstr(key)) << value;
  }
  for (const char* key : {"predictionInput", "state"}) {
    json changed = Posted();
    changed[key] = "x";
    EXPECT_THAT(WhyRefused(changed), HasSubstr(key));
  }
  EXPECT_THAT(WhyRefused(json::array()), HasSubstr("object"));
  json misspelt = Posted();
  misspelt["jobfile"] = "name: a";
  EXPECT_THAT(WhyRefused(misspelt), AllOf(HasSubstr("jobfile"), HasSubstr("did you mean jobFile?")));
}

TEST(JobTest, AWrongParameterOfASearchIsNamedWhereItStands) {
  const json params = {
      {{"parameterName", "training.batchSize"}, {"type", "INTEGER"}, {"minValue", 1}, {"maxValue", 9}},
      {{"parameterName", "training.optimizer.lr"}, {"type", "DOUBLE"}, {"minValue", 1}, {"maxValue", 2}}};
  const json posted = {
      {"jobId", "one"}, {"jobFile", kJob}, {"trainingInput", {{"hyperparameters", {{"params", params}}}}}};
  EXPECT_THAT(std::string(ReadJob(posted.dump()).status().message()),
              HasSubstr("trainingInput.hyperparameters.params[1].parameterName: training.optimizer.lr: unknown key"));
}

TEST(JobTest, ARunHasANameThatJobFilesAllow) {
  Job job{.name = std::string(120, 'a') + "/12", .training_input = R"({"scaleTier":"BASIC"})"};
  EXPECT_EQ(json::parse(JobFileOf(job))["jobId"], std::string(61, 'a') + ".12");
}

// By which gcloud, whose jobs have no job file, says what a job file says.
TEST(JobTest, OfAPythonModuleTheFieldDownpourHasKeysOfTheJobFile) {
  json posted = Posted();
  posted["downpour"] = {{"training", {{"consistency", "sync"}, {"epochs", 3}}}, {"checkpoint.every", "30s"}};
  const absl::StatusOr<Job> job = ReadJob(posted.dump());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(OverridesOf(*job), testing::UnorderedElementsAre("checkpoint.every=\"30s\"",
                                                               "training.consistency=\"sync\"", "training.epochs=3"));
  EXPECT_EQ(ResourceOf(*job)["downpour"], posted["downpour"]);
  const std::pair<json, std::string> refused[] = {
      {{{"training", {{"epoch", 3}}}}, "downpour: training.epoch: unknown key; did you mean epochs?"},
      {{{"training.epochs", "three"}}, "downpour: training.epochs: must be a whole number"},
      {{{"model", {{"initializeFrom", "w.safetensors"}}}}, "downpour: model.initializeFrom: is w.safetensors, which"},
      {{{"a=b", 1}}, "downpour.a=b: is no key of a job file"},
      {json::array(), "downpour is not understood here"}};
  for (const auto& [settings, why] : refused) {
    posted["downpour"] = settings;
    EXPECT_THAT(WhyRefused(posted), HasSubstr(why)) << settings;
  }
}

TEST(JobTest, AJobFileStandsBesideAPythonModuleAndMachinesBeatIt) {
  json posted = Posted();
  posted["trainingInput"].erase("scaleTier");
  posted["jobFile"] =
      "name: own\ncluster: {workerCount: 7, parameterServerCount: 2}\ntraining: {consistency: ssp, sspBound: 3}";
  const Job of_file = ReadJob(posted.dump()).value();
  EXPECT_EQ(CoresOf(of_file), 7 + 2);
  EXPECT_EQ(JobFileOf(of_file), posted["jobFile"]);
  EXPECT_TRUE(OverridesOf(of_file).empty());
  posted["trainingInput"]["scaleTier"] = "STANDARD_1";
  EXPECT_EQ(CoresOf(ReadJob(posted.dump()).value()), 5 + 3);
  posted["downpour"] = {{"cluster", {{"scaleTier", "CUSTOM"}}}, {"cluster.workerCount", 2}};
  EXPECT_EQ(CoresOf(ReadJob(posted.dump()).value()), 2 + 1) << "the tier took the file's counts away";
  posted["jobFile"] = "name: own\ntraining: {epoch: 3}";
  EXPECT_THAT(WhyRefused(posted), HasSubstr("jobFile:2:12: training.epoch: unknown key"));
  posted["jobFile"] = "name: own";
  posted["trainingInput"]["workerCount"] = 3;
  EXPECT_THAT(WhyRefused(posted), HasSubstr("trainingInput.workerCount: means something only with scaleTier CUSTOM"));
}

TEST(JobTest, OfAPythonModuleATrialsValuesAreArgumentsWhateverElseIsSaid) {
  Job job = ReadJob(Posted().dump()).value();
  job.job_file = "name: own";
  job.trial = Trial{.values = {{"rate", "0.1"}}};
  EXPECT_THAT(OverridesOf(job), testing::Not(testing::Contains("rate=0.1")));
}

std::string Repeated(const std::string& letter, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += letter;
  return text;
}

TEST(JobTest, LabelsAreThoseOfGoogle) {
  json many;
  for (int i = 0; i < 64; ++i) many[absl::StrCat("k", i)] = "v";
  for (const json& labels : {json{{"team", "a-b_1"}}, json{{"t-e_a1", ""}}, json{{"a", "1"}}, json::object(), many,
                             json{{std::string(63, 'k'), std::string(63, 'v')}}, json{{"größe", "été_2"}},
                             json{{"команда", "чат-٣"}}, json{{"部門", "京都"}}, json{{"k", Repeated("ß", 63)}}}) {
    EXPECT_TRUE(ReadLabels(labels).ok()) << labels;
  }
  many["one-more"] = "v";
  const std::string letters = "lower case letters, digits, - and _, of at most 63";
  const std::string key = ": the key must be a lower case letter, then " + letters + " in all";
  const std::string value = ": the value must be " + letters;
  const std::pair<json, std::string> refused[] = {{json{{"Team", "a"}}, "labels Team=a" + key},
                                                  {json{{"1team", "a"}}, "labels 1team=a" + key},
                                                  {json{{"_team", "a"}}, "labels _team=a" + key},
                                                  {json{{"", "a"}}, "labels =a" + key},
                                                  {json{{"te am", "a"}}, "labels te am=a" + key},
                                                  {json{{std::string(64, 'k'), "a"}}, key},
                                                  {json{{"team", "A"}}, "labels team=A" + value},
                                                  {json{{"team", "a.b"}}, "labels team=a.b" + value},
                                                  {json{{"team", "a\nb"}}, "labels team=a b" + value},
                                                  {json{{"team", std::string(64, 'v')}}, value},
                                                  {json{{"Äther", "a"}}, "labels Äther=a" + key},
                                                  {json{{"٣a", "a"}}, "labels ٣a=a" + key},
                                                  {json{{"team", "Ж"}}, "labels team=Ж" + value},
                                                  {json{{"team", "a€"}}, "labels team=a€" + value},
                                                  {json{{"k", Repeated("ß", 64)}}, value},
                                                  {json{{"k", "\xff"}}, value},
                                                  {json{{"team", 1}}, "labels.team must be text"},
                                                  {many, "labels are 65, and a job has at most 64"},
                                                  {json("x"), "labels must be an object of texts"}};
  for (const auto& [labels, why] : refused) {
    const absl::Status status = ReadLabels(labels).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << labels;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << labels;
  }
}

TEST(JobTest, JsonThatWouldCostTheStackIsRefused) {
  EXPECT_THAT(std::string(ParseJson(std::string(1'000'000, '[')).status().message()), HasSubstr("levels"));
  EXPECT_THAT(std::string(ParseJson("{").status().message()), HasSubstr("no JSON"));
  EXPECT_THAT(std::string(ParseJson("\"\xff\"").status().message()), HasSubstr("no JSON"));
}

}  // namespace
}  // namespace downpour
