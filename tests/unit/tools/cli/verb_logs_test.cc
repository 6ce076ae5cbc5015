#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cluster/job_folder.h"
#include "tests/unit/scratch_folder.h"
#include "tests/unit/tools/acting_buffer.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;

class VerbLogsTest : public ::testing::Test {
 protected:
  VerbLogsTest() {
    folder_.Write("logs/chief.log", "I 2024-11-20 10:43:05.123 begun\nI 2024-11-20 10:43:05.125 over");
    folder_.Write("logs/ps-0.log", "I 2024-11-20 10:43:05.124 joined\n");
  }
  ToolOutcome Logs(std::vector<std::string> words) {
    words.insert(words.begin(), {"logs", "--job-dir", folder_.path()});
    return RunDownpour(words);
  }
  void Append(const std::string& task, const std::string& text) {
    std::ofstream(LogPath(folder_.path(), task), std::ios::app) << text;
  }

  ScratchFolder folder_;
};

TEST_F(VerbLogsTest, AllTasksInOrderOfTimeOrOneOfThem) {
  const ToolOutcome all = Logs({});
  EXPECT_EQ(all.code, kExitDone);
  EXPECT_EQ(all.out,
            "chief | I 2024-11-20 10:43:05.123 begun\n"
            "ps-0  | I 2024-11-20 10:43:05.124 joined\n"
            "chief | I 2024-11-20 10:43:05.125 over\n");
  EXPECT_EQ(Logs({"ps-0"}).out, "I 2024-11-20 10:43:05.124 joined\n");
}

TEST_F(VerbLogsTest, ATaskWithoutALogIsAnswered) {
  const ToolOutcome outcome = Logs({"ps0", "--follow"});
  EXPECT_EQ(outcome.code, kExitBadCommandLine);
  EXPECT_THAT(outcome.err, HasSubstr("did you mean ps-0? (there are: chief, ps-0)"));
}

TEST_F(VerbLogsTest, TheNamesOfFilesCannotDriveATerminal) {
  folder_.Write("logs/ps\x1b[2J.log", "");
  EXPECT_THAT(Logs({"ps"}).err, HasSubstr("(there are: chief, ps?[2J, ps-0)"));
}

TEST_F(VerbLogsTest, FollowingAJobThatIsOverEndsByItself) {
  EXPECT_EQ(Logs({"--follow"}).out, Logs({}).out);
  { const auto claim = ClaimJobFolder(folder_.path()); }  // there was a run, and it has gone
  EXPECT_EQ(Logs({"--follow"}).out, Logs({}).out);
}

TEST_F(VerbLogsTest, FollowsUntilNobodyIsAtWorkAndReadsTheLastWords) {
  absl::StatusOr<UniqueFd> claim = ClaimJobFolder(folder_.path());
  ASSERT_TRUE(claim.ok());
  ActingBuffer words({{"joined", [&] { Append("worker-7", "hello\n"); }},
                      {"worker-7 | hello", [&] {
                         Append("ps-0", "left");  // and no line's end: it was killed
                         claim = UniqueFd();
                       }}});
  std::ostream out(&words), err(nullptr);
  EXPECT_EQ(RunTool(AllVerbs(), {"logs", "--follow", "--job-dir", folder_.path()}, {out, err}), kExitDone);
  EXPECT_THAT(words.str(), HasSubstr("worker-7 | hello\n"));
  EXPECT_THAT(words.str(), HasSubstr("ps-0  | left\n"));
}

}  // namespace
}  // namespace downpour
