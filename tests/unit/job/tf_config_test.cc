#include "job/tf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace downpour {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

JobSpec TheJob() {
  JobSpec job;
  job.cluster = {.scale_tier = "CUSTOM", .worker_count = 3, .parameter_server_count = 2};
  job.python = {.module = "trainer.task", .sha256 = "", .args = {"--epochs", "2"}};
  return job;
}

TEST(TfConfig, ATaskFindsItselfAndHowManyOthersThereAre) {
  const Json config = Json::parse(
      TfConfigOf(TheJob(), {.type = TaskType::kWorker, .index = 2, .chief = "10.0.0.1:7000", .trial = "4"}));
  EXPECT_EQ(config["task"], Json({{"type", "worker"}, {"index", 2}, {"trial", "4"}}));
  EXPECT_EQ(config["cluster"]["chief"], Json({"10.0.0.1:7000"}));
  EXPECT_EQ(config["cluster"]["worker"].size(), 3);
  EXPECT_EQ(config["cluster"]["ps"].size(), 2);
  EXPECT_EQ(config["environment"], "cloud");
  EXPECT_EQ(config["job"]["python_module"], "trainer.task");
  EXPECT_EQ(config["job"]["args"], Json({"--epochs", "2"}));
  EXPECT_EQ(config["job"]["worker_count"], 3);
}

TEST(TfConfig, WhatIsNotKnownResolvesToNothing) {
  for (const char* chief : {"", "ipc:///tmp/x/chief", "127.0.0.1:0", "\xff"}) {
    const Json config = Json::parse(TfConfigOf(TheJob(), {.type = TaskType::kChief, .chief = chief}));
    EXPECT_EQ(config["cluster"]["chief"], Json({"chief-0.invalid:2222"})) << chief;
    EXPECT_EQ(config["cluster"]["ps"][1], "ps-1.invalid:2222");
    EXPECT_EQ(config["task"], Json({{"type", "chief"}, {"index", 0}}));
  }
}

// Whoever reads it goes by the rules of TensorFlow, as our own tasks do.
TEST(TfConfig, OurOwnReaderTakesIt) {
  const std::string text = TfConfigOf(TheJob(), {.type = TaskType::kWorker, .index = 1, .chief = "h0:7000"});
  const ClusterConfigResult read = ParseTfConfig(text, "TF_CONFIG");
  EXPECT_TRUE(read.errors.empty());
  EXPECT_EQ(read.config.worker_count, 3);
  EXPECT_EQ(read.config.task->index, 1);
  EXPECT_THAT(read.config.chief, ElementsAre(std::pair(0, "h0:7000")));
}

TEST(TfConfig, ArgumentsThatAreNoTextStayJson) {
  JobSpec job = TheJob();
  job.python.args = {"\xff\xfe", "\"}{"};
  EXPECT_EQ(Json::parse(TfConfigOf(job, {}))["job"]["args"][1], "\"}{");
}

}  // namespace
}  // namespace downpour
