#include "chief/folder/task_logs.h"

#include <gtest/gtest.h>

#include "tests/unit/chief/parts_fixture.h"

namespace downpour {
namespace {

class TaskLogsTest : public PartsFixture {
 protected:
  TaskLogsTest() { logs.Begin("worker-2", 1, "process 7"); }
  std::string File() { return disk.Has("logs/worker-2.log") ? disk.At("logs/worker-2.log") : ""; }
  TaskLogs logs{storage};
};

TEST_F(TaskLogsTest, LinesAreKeptOnceTheirAppendIsDone) {
  logs.Append("worker-2", 0, {"one", "two"});
  EXPECT_EQ(logs.Retained("worker-2"), 0u) << "not yet on disk";
  Settle();
  EXPECT_EQ(logs.Retained("worker-2"), 2u);
  EXPECT_EQ(File(), "---- process 7 ----\none\ntwo\n");
}

TEST_F(TaskLogsTest, LinesSentAgainAreWrittenOnce) {
  logs.Append("worker-2", 0, {"one", "two"});
  logs.Append("worker-2", 0, {"one", "two", "three"});
  Settle();
  logs.Append("worker-2", 0, {"one", "two", "three"});
  Settle();
  logs.Append("worker-2", 1, {"two", "three"});
  Settle();
  EXPECT_EQ(File(), "---- process 7 ----\none\ntwo\nthree\n");
}

TEST_F(TaskLogsTest, AFailedAppendIsTriedAgain) {
  disk.fate = [](const StorageOp&) { return absl::ResourceExhaustedError("no space"); };
  logs.Append("worker-2", 0, {"one"});
  Settle();
  EXPECT_EQ(logs.Retained("worker-2"), 0u);
  disk.fate = nullptr;
  logs.Append("worker-2", 0, {"one"});
  Settle();
  EXPECT_EQ(File(), "---- process 7 ----\none\n");
}

TEST_F(TaskLogsTest, MissingLinesAreCounted) {
  logs.Append("worker-2", 0, {"one"});
  Settle();
  logs.Append("worker-2", 5, {"six"});
  Settle();
  EXPECT_EQ(File(), "---- process 7 ----\none\n---- 4 lines lost ----\nsix\n");
  EXPECT_EQ(logs.Retained("worker-2"), 6u);
}

TEST_F(TaskLogsTest, AProcessThatJoinsAgainGoesOnCounting) {
  logs.Append("worker-2", 0, {"one"});
  Settle();
  logs.Begin("worker-2", 1, "process 7 again");
  logs.Append("worker-2", 1, {"two"});
  Settle();
  logs.Begin("worker-2", 2, "process 8");
  logs.Append("worker-2", 40, {"first that its buffer still has"});
  Settle();
  EXPECT_EQ(File(), "---- process 7 ----\none\ntwo\n---- process 8 ----\nfirst that its buffer still has\n");
}

TEST_F(TaskLogsTest, LinesCannotForgeLines) {
  logs.Append("worker-2", 0, {"a\nb\x1b[2J", std::string(9000, 'x')});
  Settle();
  EXPECT_NE(File().find("a b?[2J\n"), std::string::npos) << File().substr(0, 100);
  EXPECT_LT(File().size(), 5000u);
}

TEST_F(TaskLogsTest, FloodsAndNonsenseAreBounded) {
  logs.Append("worker-2", 0, std::vector<std::string>(1000, "x"));
  Settle();
  EXPECT_EQ(logs.Retained("worker-2"), TaskLogs::kMaxLines);
  logs.Append("worker-2", UINT64_MAX, {"x"});
  logs.Append("nobody", 0, {"x"});
  Settle();
  EXPECT_EQ(logs.Retained("worker-2"), TaskLogs::kMaxLines);
  EXPECT_EQ(disk.Paths().size(), 1u);
}

TEST_F(TaskLogsTest, AFullLogDropsLinesAndSaysSo) {
  const std::vector<std::string> block(TaskLogs::kMaxLines, std::string(TaskLogs::kMaxLineBytes, 'x'));
  for (uint64_t from = 0; from < 100 * block.size(); from += block.size()) {
    logs.Append("worker-2", from, block);
    Settle();
    EXPECT_EQ(logs.Retained("worker-2"), from + block.size());
  }
  EXPECT_LT(File().size(), TaskLogs::kMaxFileBytes + 2 * block.size() * TaskLogs::kMaxLineBytes);
  EXPECT_NE(File().find("log full"), std::string::npos);
}

}  // namespace
}  // namespace downpour
