#include "cluster/progress.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/cluster/sample_status.h"

namespace downpour {
namespace {

TEST(ProgressTest, TheDocumentedSample) {
  EXPECT_EQ(ProgressLine(ParseStatus(SampleStatus()).value()),
            "epoch 3.2/10 (32 %) | 48,211 examples/s | loss 0.0912 | staleness 2.9 | 1/2 workers | 40 s left | "
            "chief waits for ps-1: has not reported slice 4 (and 1 more)");
}

TEST(ProgressTest, BeforeItRunsItSaysWhatIsWaitedFor) {
  StatusReport status;
  status.state = "QUEUED";
  EXPECT_EQ(ProgressLine(status), "QUEUED");
  status.pending = {{"ps-0", "has not joined yet"}, {"worker-0", "has not joined yet"}};
  EXPECT_EQ(ProgressLine(status), "QUEUED: ps-0 has not joined yet; worker-0 has not joined yet");
  status.state = "PREPARING";
  status.pending.clear();
  status.waits = {{"chief", "ps-0", "has not reported slice 4", 1.0}};
  EXPECT_EQ(ProgressLine(status), "PREPARING: chief waits for ps-0: has not reported slice 4");
}

TEST(ProgressTest, WhileItRunsItSaysWhoWaitsFirst) {
  StatusReport status;
  status.state = "RUNNING";
  for (int i = 0; i < 6; ++i) status.waits.push_back({absl::StrCat("worker-", i), "parameters from ps-0", "", 2.0});
  EXPECT_EQ(ProgressLine(status),
            "RUNNING | 0/0 workers | worker-0, worker-1, worker-2 and 3 more wait for parameters from ps-0");
}

TEST(ProgressTest, WhoHasNothingToDoIsToldLast) {
  StatusReport status;
  status.state = "RUNNING";
  status.waits = {{"worker-0", "work", "", 2.0}};
  EXPECT_EQ(ProgressLine(status), "RUNNING | 0/0 workers | worker-0 waits for work");
  status.pending = {{"ps-1", "is dead; waiting for another process in its place"}};
  EXPECT_EQ(ProgressLine(status),
            "RUNNING | 0/0 workers | ps-1 is dead; waiting for another process in its place (and 1 more)");
}

TEST(ProgressTest, WhatDivergesIsNamed) {
  StatusReport status;
  status.state = "RUNNING";
  status.diverging = "the loss is not finite";
  EXPECT_EQ(ProgressLine(status), "RUNNING | 0/0 workers | DIVERGING: the loss is not finite");
}

TEST(ProgressTest, UnknownThingsAreLeftOutAndTheEndIsNamed) {
  StatusReport status;
  status.state = "RUNNING";
  EXPECT_EQ(ProgressLine(status), "RUNNING | 0/0 workers");
  status.state = "CANCELLING";
  status.progress.epoch = 2;
  status.progress.epochs = 4;
  EXPECT_EQ(ProgressLine(status), "CANCELLING | epoch 2.0/4 (50 %) | 0/0 workers");
}

TEST(ProgressTest, OfAJobThatIsOverNoWorkersAreCounted) {
  StatusReport status;
  for (const char* state : {"SUCCEEDED", "FAILED", "CANCELLED"}) {
    status.state = state;
    EXPECT_EQ(ProgressLine(status), absl::StrCat(state, " | ", state)) << "they leave one by one";
  }
}

TEST(ProgressTest, LostWorkersAreNotAlive) {
  StatusReport status;
  status.state = "RUNNING";
  for (const char* state : {"RUNNING", "PREPARING", "LOST", "PENDING"}) {
    TaskReport task;
    task.name = std::string("worker-") + state;
    task.role = "worker";
    task.state = state;
    status.tasks.push_back(task);
  }
  TaskReport server;
  server.role = "ps";
  server.state = "RUNNING";
  status.tasks.push_back(server);
  status.pending = {{"worker-LOST", "died"}};
  EXPECT_EQ(ProgressLine(status), "RUNNING | 2/4 workers | worker-LOST died");
}

TEST(FitLineTest, CutsByCharactersNotBytes) {
  EXPECT_EQ(FitLine("abc", 3), "abc");
  EXPECT_EQ(FitLine("abcd", 3), "abc");
  EXPECT_EQ(FitLine("\xc3\xa4\xc3\xb6\xc3\xbc", 2), "\xc3\xa4\xc3\xb6");
  EXPECT_EQ(FitLine("abc", 0), "");
}

TEST(FitLineTest, ColorsTakeNoColumnAndEndWithTheLine) {
  EXPECT_EQ(FitLine("a \x1b[31mbcd\x1b[0m", 5), "a \x1b[31mbcd\x1b[0m");
  EXPECT_EQ(FitLine("a \x1b[31mbcd\x1b[0m", 3), "a \x1b[31mb\x1b[0m");
}

}  // namespace
}  // namespace downpour
