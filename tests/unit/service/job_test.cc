#include "service/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

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
                                                {"args", {1}},
                                                {"args", {std::string("a\0b", 3)}},
                                                {"packageUris", json::array()},
                                                {"pythonModule", ""},
                                                {"pythonModule", 7},
                                                {"scaleTier", "HUGE"},
                                                {"jobDir", 1},
                                                {"workerCount", "-1"},
                                                {"hyperparameters", {}}};
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

TEST(JobTest, ARunHasANameThatJobFilesAllow) {
  Job job{.name = std::string(120, 'a') + "/12", .training_input = R"({"scaleTier":"BASIC"})"};
  EXPECT_EQ(json::parse(JobFileOf(job))["jobId"], std::string(61, 'a') + ".12");
}

TEST(JobTest, LabelsHaveBounds) {
  for (const json& labels : {json{{"a", 1}}, json{{"", "x"}}, json{{"a", std::string(64, 'x')}}, json("x")}) {
    EXPECT_FALSE(ReadLabels(labels).ok()) << labels;
  }
  json many;
  for (int i = 0; i < 65; ++i) many[absl::StrCat("k", i)] = "v";
  EXPECT_FALSE(ReadLabels(many).ok());
}

TEST(JobTest, JsonThatWouldCostTheStackIsRefused) {
  EXPECT_THAT(std::string(ParseJson(std::string(1'000'000, '[')).status().message()), HasSubstr("levels"));
  EXPECT_THAT(std::string(ParseJson("{").status().message()), HasSubstr("no JSON"));
  EXPECT_THAT(std::string(ParseJson("\"\xff\"").status().message()), HasSubstr("no JSON"));
}

}  // namespace
}  // namespace downpour
