#include "job/job_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "job/job_file.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Read {
  std::vector<std::string> entries;
  std::string errors;
};

Read ReadSection(const std::string& yaml) {
  JobErrors errors("config.yaml");
  Read read;
  for (const PlacedEntry& placed : SettingsIn(ReadYaml(yaml).root, errors)) read.entries.push_back(placed.entry);
  for (const JobError& error : errors.Take()) read.errors += ToString(error) + "\n";
  return read;
}

TEST(JobSettingsTest, MapsAndDottedKeysAreTheSame) {
  const Read nested =
      ReadSection("training: {consistency: sync, optimizer: {learningRate: 0.1}}\ncheckpoint: {every: 30s}");
  const Read dotted =
      ReadSection("training.consistency: sync\ntraining: {optimizer.learningRate: 0.1}\ncheckpoint.every: 30s");
  EXPECT_THAT(nested.entries, ElementsAre("training.consistency=\"sync\"", "training.optimizer.learningRate=0.1",
                                          "checkpoint.every=\"30s\""));
  EXPECT_EQ(dotted.entries, nested.entries);
  EXPECT_EQ(nested.errors + dotted.errors, "");
}

TEST(JobSettingsTest, ValuesKeepWhatTheyAre) {
  EXPECT_THAT(
      ReadSection("seed: 18446744073709551615\na: 007\nb: \"3\"\nc: true\nd: [x, 1.5]\ne: null\nf: {}\ng: 1e3\nh: 0x10")
          .entries,
      ElementsAre("seed=18446744073709551615", "a=7", "b=\"3\"", "c=true", "d=[\"x\",1.5]", "e=", "f={}", "g=1000.0",
                  "h=\"0x10\""));
}

TEST(JobSettingsTest, WhatNoJobFileCanHaveIsNamed) {
  EXPECT_THAT(ReadSection("[a]").errors, HasSubstr("downpour: must be a map of keys of a job file, but is a list"));
  EXPECT_THAT(ReadSection("a: {\"b=c\": 1}").errors, HasSubstr("config.yaml:1:5: downpour.a.b=c: is no key"));
  for (const char* key : {".a", "a.", "a..b"}) {
    const Read read = ReadSection(std::string(key) + ": 1");
    EXPECT_THAT(read.errors, HasSubstr("is no key of a job file")) << key;
    EXPECT_THAT(read.entries, IsEmpty()) << key;
  }
  std::string many;
  for (int i = 0; i < 1001; ++i) many += "k" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(ReadSection(many).errors, HasSubstr("has more than 1000 settings"));
}

TEST(JobSettingsTest, OfCodeOnlyWhatTheCodeCannotMendIsWrong) {
  const char* good[] = {"training.staleness.method=slowMomentum",
                        "training.optimizer.momentum=0.9",
                        "training.sspBound=3",
                        "checkpoint.best=accuracy",
                        "training.metrics=[mine]",
                        "training.stopEarly.metric=accuracy"};
  for (const char* entry : good) EXPECT_TRUE(ParseJobOfCode("name: a", "f", {entry}).ok()) << entry;
  const char* bad[] = {"training.epoch=3",
                       "training.epochs=x",
                       "training.consistency=asink",
                       "checkpoint.every=3",
                       "training.optimizer.learningRate=-1",
                       "training.pullAhead=maybe",
                       "seed=-1"};
  for (const char* entry : bad) {
    const JobFileResult read = ParseJobOfCode("name: a", "f", {entry});
    ASSERT_EQ(read.errors.size(), 1u) << entry;
    EXPECT_EQ(read.errors[0].file, kSetByHand) << entry;
  }
  EXPECT_EQ(ParseJobOfCode("training: {epochs: 1}", "f").errors.at(0).key, "name");
  EXPECT_EQ(ParseJobOfCode("name: a\ntrainingInput: {scaleTier: BASIC, workerCount: 3}", "f").errors.size(), 1u);
}

}  // namespace
}  // namespace downpour
