#include "service/job_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using nlohmann::json;

std::string TrainLine(int second) {
  return json{{"kind", "train"}, {"elapsed", second}, {"loss", 1.0 / (1 + second)}}.dump() + "\n";
}

TEST(JobHistoryTest, GivesColumnsAndThenWhatIsNew) {
  const ScratchFolder folder;
  const std::string first = R"({"kind":"job","run":"a","name":"x"}
{"kind":"train","elapsed":1,"loss":2.5,"staleness":1}
{"kind":"tasks","elapsed":1,"tasks":{"ps-0":{"cpu":0.5}}}
{"kind":"train","elapsed":2,"loss":null,"examplesPerSecond":9}
{"kind":"eval","elapsed":2,"accuracy":0.5,"metrics":{"top5":0.75}}
{"kind":"tasks","elapsed":2,"tasks":{"ps-0":{"cpu":0.25},"worker-0":{"memoryBytes":7}}}
{"kind":"train","elapsed":3,"lo)";
  const std::string path = folder.Write("metrics.jsonl", first);
  const json all = ReadHistory(path, 0);
  EXPECT_EQ(all["train"], json::parse(R"({"elapsed":[1,2],"loss":[2.5,null],"staleness":[1,null],
                                          "examplesPerSecond":[null,9]})"));
  EXPECT_EQ(all["eval"], json::parse(R"({"elapsed":[2],"accuracy":[0.5],"top5":[0.75]})"));
  EXPECT_EQ(all["tasks"], json::parse(R"({"ps-0":{"elapsed":[1,2],"cpu":[0.5,0.25]},
                                          "worker-0":{"elapsed":[2],"memoryBytes":[7]}})"));
  EXPECT_EQ(all["run"], "a");
  std::ofstream(path, std::ios::app) << "ss\":1.5}\n";
  const json news = ReadHistory(path, all["mark"]);
  EXPECT_EQ(news["train"], json::parse(R"({"elapsed":[3],"loss":[1.5]})")) << "the line is whole now";
  EXPECT_EQ(news["eval"], json::object());
  EXPECT_EQ(ReadHistory(path, news["mark"])["mark"], news["mark"]);
}

TEST(JobHistoryTest, LeavesOutWhatIsOfAnotherRun) {
  const ScratchFolder folder;
  const std::string path = folder.Write(
      "metrics.jsonl", absl::StrCat(R"({"kind":"job","run":"a"})", "\n", TrainLine(1), R"({"kind":"job","run":"a"})",
                                    "\n", TrainLine(2), R"({"kind":"job","run":"b"})", "\n", TrainLine(3)));
  const json history = ReadHistory(path, 0);
  EXPECT_EQ(history["train"]["elapsed"], json({3}));
  EXPECT_EQ(history["run"], "b");
}

TEST(JobHistoryTest, AFileThatBecameShorterIsReadAgain) {
  const ScratchFolder folder;
  const std::string path = folder.Write("metrics.jsonl", TrainLine(1));
  const json history = ReadHistory(path, 1'000'000);
  EXPECT_EQ(history["restarted"], true);
  EXPECT_EQ(history["train"]["elapsed"], json({1}));
  EXPECT_EQ(ReadHistory(path, -5)["restarted"], true);
  EXPECT_EQ(ReadHistory("/none", 0)["mark"], 0);
}

TEST(JobHistoryTest, ALongOneIsThinnedAndKeepsItsLastPoint) {
  const ScratchFolder folder;
  std::string lines;
  for (int i = 0; i < 5000; ++i) {
    absl::StrAppend(&lines, TrainLine(i));
    json tasks;
    for (int task = 0; task < 20; ++task) tasks[absl::StrCat("worker-", task)] = {{"cpu", 1}};
    absl::StrAppend(&lines, json{{"kind", "tasks"}, {"elapsed", i}, {"tasks", tasks}}.dump(), "\n");
  }
  const json history = ReadHistory(folder.Write("metrics.jsonl", lines), 0);
  const json& seconds = history["train"]["elapsed"];
  EXPECT_LE(seconds.size(), kMostHistoryPoints + 1);
  EXPECT_GE(seconds.size(), kMostHistoryPoints / 2);
  EXPECT_EQ(seconds.front(), 0);
  EXPECT_EQ(seconds.back(), 4999);
  EXPECT_EQ(seconds[2].get<int>() - seconds[1].get<int>(), seconds[101].get<int>() - seconds[100].get<int>());
  EXPECT_LE(20 * history["tasks"]["worker-3"]["cpu"].size(), kMostTaskPoints + 20);
  EXPECT_EQ(history["tasks"]["worker-3"]["elapsed"].back(), 4999);
}

TEST(JobHistoryTest, WhatNobodyCanReadIsLeftOut) {
  const ScratchFolder folder;
  const std::string bad = R"(no JSON
[]
{"kind":7}
{"kind":"train","elapsed":1e999}
{"kind":"tasks","tasks":[1]}
{"kind":"tasks","tasks":{"ps-0":3}}
{"kind":"eval","elapsed":1,"metrics":[1],"accuracy":"half"}
{"kind":"train","a":{"b":{"c":{"d":{"e":1}}}}}
)";
  const json history = ReadHistory(folder.Write("metrics.jsonl", bad + TrainLine(4)), 0);
  EXPECT_EQ(history["train"]["elapsed"], json({4}));
  EXPECT_EQ(history["tasks"], json::object());
  EXPECT_EQ(history["eval"], json::parse(R"({"elapsed":[1]})"));
}

}  // namespace
}  // namespace downpour
