#include "schema/status_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/unit/cluster/sample_status.h"

namespace downpour {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StatusReportTest, TheSampleOfThePageIsReadWholeAndWrittenAsItIs) {
  EXPECT_EQ(ToJson(ParseStatus(SampleStatus()).value()), json::parse(SampleStatus()).dump());
}

TEST(StatusReportTest, SoIsTheSampleOfASummary) {
  EXPECT_EQ(ToJson(ParseSummary(SampleSummary()).value()), json::parse(SampleSummary()).dump(1) + "\n");
}

TEST(StatusReportTest, OfATaskThatNobodyFillsOnlyItsPlaceIsTold) {
  StatusReport report;
  report.tasks.resize(1);
  report.tasks[0].name = "worker-3";
  report.tasks[0].rejected = 0;
  EXPECT_EQ(json::parse(ToJson(report))["tasks"],
            json::parse(R"([{"name": "worker-3", "role": "", "state": "", "rejected": 0}])"));
}

TEST(StatusReportTest, WhatIsUnknownEmptyOrNotFiniteIsAbsent) {
  const double infinite = std::numeric_limits<double>::infinity();
  StatusReport report;
  report.elapsed = infinite;
  report.progress.loss = std::numeric_limits<double>::quiet_NaN();
  report.checkpoint.best.value = infinite;
  const json empty = json::parse(ToJson(report));
  for (const char* absent : {"elapsedSeconds", "exitCode", "evaluation", "startTimeUnixMs"}) {
    EXPECT_FALSE(empty.contains(absent)) << absent;
  }
  EXPECT_THAT(empty["progress"], IsEmpty());
  EXPECT_FALSE(empty["checkpoint"].contains("best"));
  EXPECT_FALSE(empty["checkpoint"].contains("round"));
  EXPECT_EQ(empty["failures"], json::array());
  report.evaluation.round = 1;
  report.evaluation.metrics = {{"auc", infinite}, {"top5", 0.5}};
  EXPECT_EQ(json::parse(ToJson(report))["evaluation"], json::parse(R"({"round": 1, "metrics": {"top5": 0.5}})"));
}

TEST(StatusReportTest, ANumberThatIsNoCountIsTheNearestOne) {
  const auto pid_of = [](const std::string& number) {
    return ParseStatus(R"({"chief": {"pid": )" + number + "}}").value().chief.pid;
  };
  EXPECT_EQ(pid_of("1.5"), 1u);
  for (const char* none : {"0", "-1", "-1e300"}) EXPECT_EQ(pid_of(none), 0u) << none;
  for (const char* many : {"18446744073709551615", "18446744073709551616", "1e300"}) {
    EXPECT_EQ(pid_of(many), UINT64_MAX) << many;
  }
  for (const char* none : {"\"7\"", "true", "null", "[7]", "{}"}) {
    EXPECT_EQ(pid_of(none), std::nullopt) << none;
  }
  EXPECT_EQ(ParseStatus(R"({"elapsedSeconds": 7})").value().elapsed, 7.0);
}

TEST(StatusReportTest, OfListsThatAreNoneOrHoldAnythingTheRestIsRead) {
  const StatusReport report =
      ParseStatus(R"({"tasks": {"a": {"name": "ps-0"}}, "waits": [7, {"task": "ps-1"}, null], "failures": "none",
                      "next": [1, "downpour watch", {}], "progress": [], "evaluation": {"metrics": {"auc": "high"}}})")
          .value();
  EXPECT_THAT(report.tasks, IsEmpty());
  ASSERT_EQ(report.waits.size(), 3u);
  EXPECT_EQ(report.waits[0].task, "");
  EXPECT_EQ(report.waits[1].task, "ps-1");
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_THAT(report.next, ElementsAre("downpour watch"));
  EXPECT_EQ(report.progress.epoch, std::nullopt);
  EXPECT_THAT(report.evaluation.metrics, IsEmpty());
}

TEST(StatusReportTest, WhatIsNoObjectIsRefused) {
  for (const char* text : {"", "[]", "{", "null", "7", "\"x\"", "{\"a\": }"}) {
    EXPECT_EQ(ParseStatus(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(ParseSummary(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace downpour
