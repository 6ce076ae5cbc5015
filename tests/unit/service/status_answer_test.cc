#include "service/status_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

using nlohmann::json;

Answer AnswerOf(StatusReport status) {
  std::string text = ToJson(status);
  return {.json = std::move(text), .status = std::move(status), .summary = std::nullopt};
}

StatusReport Crowd(int workers) {
  StatusReport status;
  for (int i = 0; i < workers; ++i) {
    TaskReport task;
    task.name = absl::StrCat("worker-", i);
    task.state = i == workers - 1 ? "LOST" : "RUNNING";
    status.tasks.push_back(task);
    WaitReport wait;
    wait.task = task.name;
    wait.on = i % 2 == 0 ? "ps-0" : "ps-1";
    status.waits.push_back(wait);
    PendingReport pending;
    pending.task = task.name;
    status.pending.push_back(pending);
  }
  return status;
}

TEST(StatusAnswerTest, GivesAllUnlessAskedForSome) {
  const Answer answer = AnswerOf(Crowd(100));
  const json all = json::parse(StatusAnswer("RUNNING", answer, std::nullopt));
  EXPECT_EQ(all["state"], "RUNNING");
  EXPECT_EQ(all["status"], json::parse(answer.json));
  EXPECT_FALSE(all.contains("tasks"));
}

TEST(StatusAnswerTest, LeavesOutTasksAndTellsHowMany) {
  const json some = json::parse(StatusAnswer("RUNNING", AnswerOf(Crowd(100)), 3));
  const json& tasks = some["status"]["tasks"];
  ASSERT_EQ(tasks.size(), 3);
  EXPECT_EQ(tasks[0]["name"], "worker-99") << "what is lost comes first";
  EXPECT_EQ(tasks[1]["name"], "worker-0");
  EXPECT_EQ(tasks[2]["name"], "worker-1");
  EXPECT_EQ(some["tasks"], 100);
  EXPECT_EQ(some["status"]["waits"].size(), 2 * kWaitsOfAGroup);
  EXPECT_EQ(some["status"]["pending"].size(), kMostLines);
  ASSERT_EQ(some["moreWaits"].size(), 2);
  EXPECT_EQ(some["moreWaits"][0]["for"], "ps-0");
  EXPECT_EQ(some["moreWaits"][0]["count"], 50 - kWaitsOfAGroup);
}

TEST(StatusAnswerTest, TheTasksThatNeedALookComeFirst) {
  StatusReport status;
  for (const char* state : {"LEFT", "RUNNING", "PREPARING", "PENDING", "REFUSED", "LOST", "RUNNING"}) {
    status.tasks.emplace_back();
    status.tasks.back().name = absl::StrCat("worker-", status.tasks.size());
    status.tasks.back().state = state;
  }
  const json some = json::parse(StatusAnswer("RUNNING", AnswerOf(status), 1000000));
  std::vector<std::string> names;
  for (const json& task : some["status"]["tasks"]) names.push_back(task["name"]);
  EXPECT_THAT(names,
              testing::ElementsAre("worker-6", "worker-5", "worker-4", "worker-3", "worker-2", "worker-7", "worker-1"));
}

TEST(StatusAnswerTest, FewTasksAreAsTheyAre) {
  const Answer answer = AnswerOf(Crowd(3));
  const json some = json::parse(StatusAnswer("RUNNING", answer, 3));
  EXPECT_EQ(some["status"]["tasks"].size(), 3);
  EXPECT_EQ(some["moreWaits"], json::array());
}

TEST(StatusAnswerTest, AJobThatIsOverHasItsSummary) {
  const json over =
      json::parse(StatusAnswer("CANCELLED", {.json = "{}", .status = std::nullopt, .summary = SummaryReport{}}, 3));
  EXPECT_EQ(over, json::parse(R"({"state": "CANCELLED", "summary": {}})"));
}

}  // namespace
}  // namespace downpour
