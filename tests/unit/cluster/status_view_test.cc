#include "cluster/status_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cluster/progress.h"
#include "cluster/status_table.h"
#include "tests/unit/cluster/sample_status.h"

namespace downpour {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(StatusViewTest, ReadsTheDocumentedSample) {
  const absl::StatusOr<StatusReport> status = ParseStatus(SampleStatus());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->job, "mnist-mlp");
  EXPECT_EQ(status->state, "RUNNING");
  EXPECT_EQ(status->chief.pid, 4711);
  EXPECT_EQ(status->chief.term, 1);
  EXPECT_EQ(status->progress.examples_committed, 194560);
  EXPECT_EQ(status->staleness.max, 11);
  ASSERT_EQ(status->tasks.size(), 2u);
  EXPECT_EQ(status->tasks[0].name, "worker-0");
  EXPECT_EQ(status->tasks[0].pid, 4715);
  EXPECT_EQ(status->tasks[0].cpu_share, 0.93);
  EXPECT_EQ(status->tasks[1].tables.rows, 1234567);
  EXPECT_EQ(status->tables.bytes, 188743680);
  ASSERT_EQ(status->pending.size(), 1u);
  EXPECT_EQ(status->pending[0].why, "has not joined yet");
  ASSERT_EQ(status->waits.size(), 1u);
  EXPECT_EQ(status->waits[0].on, "ps-1");
  ASSERT_EQ(status->failures.size(), 1u);
  EXPECT_EQ(status->failures[0].age, 9.5);
  ASSERT_EQ(status->next.size(), 1u);
  EXPECT_NEAR(EpochsDone(*status).value(), 3.2427, 1e-4);
}

TEST(StatusViewTest, ReadsTheDocumentedSummary) {
  const absl::StatusOr<SummaryReport> summary = ParseSummary(SampleSummary());
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->state, "SUCCEEDED");
  EXPECT_EQ(summary->eval_accuracy, 0.981);
  ASSERT_EQ(summary->eval_metrics.size(), 2u);
  EXPECT_EQ(summary->eval_metrics[1].first, "top5");
  EXPECT_EQ(summary->eval_metrics[1].second, 0.9995);
  EXPECT_EQ(summary->term, 1);
  EXPECT_EQ(summary->recovery.workers_lost, 0);
  EXPECT_EQ(summary->staleness.mean, 3.0);
  EXPECT_EQ(summary->elapsed, 13.1);
}

TEST(StatusViewTest, WhatIsAbsentOrOfAnotherTypeIsUnknown) {
  const absl::StatusOr<StatusReport> status =
      ParseStatus(R"({"job": 7, "state": "RUNNING", "progress": [], "tasks": {"a": 1}, "pending": null, "next": [1]})");
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->job, "");
  EXPECT_EQ(status->progress.epochs, std::nullopt);
  EXPECT_EQ(EpochsDone(*status), std::nullopt);
  EXPECT_TRUE(status->next.empty());
  for (const char* text : {"", "[]", "{", "null", "\"x\"", "{\"a\": }"}) {
    EXPECT_EQ(ParseStatus(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

// Every word of a document becomes one that would clear a terminal's screen, in both kinds of escape, and begin a line.
std::string Hostile(const std::string& document) {
  const std::string words = "\x1b[2J\r\n\xc2\x9bH";
  nlohmann::json flat = nlohmann::json::parse(document).flatten();
  for (auto& [place, value] : flat.items()) {
    if (value.is_string() && place != "/tasks/0/role") value = words;
  }
  return flat.unflatten().dump();
}

TEST(StatusViewTest, WordsCannotDriveATerminalNorBeginALine) {
  const StatusReport status = ParseStatus(Hostile(SampleStatus())).value();
  EXPECT_EQ(status.tasks.at(0).host, "?[2J? ??H");
  EXPECT_EQ(status.next.at(0), "?[2J? ??H");
  const SummaryReport summary = ParseSummary(Hostile(SampleSummary())).value();
  for (const std::string& shown : {StatusTable(status, false), SummaryTable(summary, false), ProgressLine(status)}) {
    EXPECT_THAT(shown, HasSubstr("?[2J? ??H"));
    for (const char* driving : {"\x1b", "\r", "\xc2\x9b", "\nH"}) EXPECT_THAT(shown, Not(HasSubstr(driving)));
  }
}

TEST(StatusViewTest, GroupsWhoWaitsForTheSame) {
  const std::vector<WaitGroup> groups =
      GroupWaits({{"chief", "ps-0", "is gone", 3}, {"worker-0", "ps-0", "", 1}, {"worker-1", "ps-0", "", 2}});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].tasks, std::vector<std::string>{"chief"});
  EXPECT_EQ(groups[1].tasks, (std::vector<std::string>{"worker-0", "worker-1"}));
  EXPECT_EQ(groups[1].seconds, 2);
}

TEST(StatusViewTest, HealthyMeansAllThereAndNoFailureLately) {
  StatusReport status;
  for (const char* state : {"QUEUED", "PREPARING", "RUNNING", "SUCCEEDED"}) {
    status.state = state;
    EXPECT_TRUE(IsHealthy(status)) << state;
  }
  for (const char* state : {"FAILED", "CANCELLING", "CANCELLED", "", "NEW_STATE"}) {
    status.state = state;
    EXPECT_FALSE(IsHealthy(status)) << state;
  }
  status.pending = {{"worker-1", "has not joined yet"}};
  status.state = "QUEUED";
  EXPECT_TRUE(IsHealthy(status));
  status.recovery.chief_restarts = 1;
  EXPECT_FALSE(IsHealthy(status)) << "it was there before";
  status.recovery.chief_restarts = 0;
  status.state = "RUNNING";
  EXPECT_FALSE(IsHealthy(status));
  status.pending.clear();
  status.stalled = "nothing has moved for 10 s";
  EXPECT_FALSE(IsHealthy(status));
  status.stalled.clear();
  status.diverging = "the loss is not finite";
  EXPECT_FALSE(IsHealthy(status));
  status.diverging.clear();
  status.failures = {{"worker-1", "died", 61, 1}};
  EXPECT_TRUE(IsHealthy(status));
  status.failures[0].age = 59;
  EXPECT_FALSE(IsHealthy(status));
}

TEST(StatusViewTest, OnlyTheThreeLastStatesEndAJob) {
  StatusReport status;
  for (const char* state : {"QUEUED", "PREPARING", "RUNNING", "CANCELLING"}) {
    status.state = state;
    EXPECT_FALSE(HasEnded(status)) << state;
  }
  for (const char* state : {"SUCCEEDED", "FAILED", "CANCELLED"}) {
    status.state = state;
    EXPECT_TRUE(HasEnded(status)) << state;
  }
}

}  // namespace
}  // namespace downpour
