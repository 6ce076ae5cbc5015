#include "service/slurm_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "service/ask_program.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// The script as Slurm runs it, but without Slurm.
class SlurmBatchTest : public testing::Test {
 protected:
  SlurmBatchTest() { EXPECT_TRUE(folder_.Make().ok()); }

  Said Run(const std::string& id, const std::vector<std::string>& begin, const std::vector<std::string>& resume) {
    std::ofstream(folder_.Own("batch.sh")) << BatchScript(begin, resume, folder_);
    return AskProgram({"/usr/bin/env", "SLURM_JOB_ID=" + id, "/bin/sh", folder_.Own("batch.sh")}, 60);
  }
  // Begins, or resumes, by saying so; ends with that code.
  Said Run(const std::string& id, int code = 0) {
    const std::string end = "; exit " + std::to_string(code);
    return Run(id, {"/bin/sh", "-c", "echo begins" + end}, {"/bin/sh", "-c", "echo resumes" + end});
  }
  std::string Own(const std::string& name) const {
    std::ifstream file(folder_.Own(name));
    std::string word;
    file >> word;
    return word;
  }
  void HasCheckpoint() const {
    std::filesystem::create_directories(folder_.job_dir() + "/checkpoints/1-1");
    std::ofstream(folder_.job_dir() + "/checkpoints/1-1/MANIFEST") << "x";
  }
  ScratchFolder scratch_;
  const RunFolder folder_{scratch_.path() + "/a job's \"folder\""};
};

TEST_F(SlurmBatchTest, LeavesItsMarkAndTheExitCode) {
  const Said said = Run("7", 3);
  EXPECT_THAT(said.out, HasSubstr("begins\n"));
  EXPECT_EQ(said.code, 3);
  EXPECT_EQ(Own("started"), "7");
  EXPECT_EQ(Own("exit"), "3");
}

TEST_F(SlurmBatchTest, AnotherSubmissionEndsAtOnce) {
  Run("7", 3);
  const Said said = Run("8");
  EXPECT_EQ(said.code, 97);
  EXPECT_THAT(said.out, Not(HasSubstr("begins")));
  EXPECT_EQ(Own("exit"), "3");
}

TEST_F(SlurmBatchTest, TheSameOneContinuesFromItsCheckpoint) {
  Run("7", 143);
  EXPECT_THAT(Run("7", 143).out, HasSubstr("begins\n")) << "there is none";
  HasCheckpoint();
  EXPECT_THAT(Run("7").out, HasSubstr("resumes\n"));
  EXPECT_EQ(Own("exit"), "0");
  EXPECT_THAT(Run("7").out, Not(HasSubstr("resumes"))) << "it was done";
}

TEST_F(SlurmBatchTest, WhatIsToEndDoesNotBegin) {
  std::ofstream(folder_.Own("stop")) << "";
  const Said said = Run("7");
  EXPECT_THAT(said.out, Not(HasSubstr("begins")));
  EXPECT_EQ(Own("exit"), "143");
}

TEST_F(SlurmBatchTest, ASignalToTheScriptTellsTheRunOnce) {
  const std::string told =
      "n=0; trap 'n=$((n + 1)); echo told $n' TERM; kill -USR1 $PPID; kill -USR1 $PPID; "
      "while [ $n = 0 ]; do sleep 0.05; done; sleep 0.3; exit 143";
  const Said said = Run("7", {"/bin/sh", "-c", told}, {"/bin/false"});
  EXPECT_THAT(said.out, HasSubstr("told 1\n"));
  EXPECT_THAT(said.out, Not(HasSubstr("told 2")));
  EXPECT_EQ(Own("exit"), "143");
}

TEST_F(SlurmBatchTest, BeforeTheTimeLimitWithoutACheckpointTheJobIsOutOfTime) {
  const std::string told = "trap 'exit 143' TERM; kill -USR2 $PPID; while :; do sleep 0.05; done";
  Run("7", {"/bin/sh", "-c", told}, {"/bin/false"});
  EXPECT_EQ(Own("exit"), "143");
  EXPECT_TRUE(std::filesystem::exists(folder_.Own("out_of_time")));
}

TEST_F(SlurmBatchTest, WordsReachTheRunAsTheyAre) {
  const std::vector<std::string> words = {"$(touch here)",   "a'b",      "c\"d", "e\nf",
                                          "#SBATCH --uid=0", "; exit 9", "`id`", ""};
  std::vector<std::string> command = {"printf", "<%s>"};
  command.insert(command.end(), words.begin(), words.end());
  std::string expected;
  for (const std::string& word : words) expected += "<" + word + ">";
  EXPECT_THAT(Run("7", command, {"/bin/false"}).out, HasSubstr(expected));
}

TEST_F(SlurmBatchTest, WhatSbatchIsAskedFor) {
  RunOrder order{.job = {.name = "wd/2", .created_ms = 17}, .job_file = "job.json"};
  const std::vector<std::string> command =
      SbatchCommand(order, {.cores = 3, .memory = (uint64_t{5} << 20) + 1, .gpus = 2},
                    {.partition = "p", .sbatch_options = {"--time=5"}}, RunFolder("/a%b"));
  for (const char* word : {"--job-name=downpour-wd.2-17", "--chdir=/a%b", "--output=/a%%b/logs/service.log",
                           "--cpus-per-task=3", "--mem=6M", "--gres=gpu:2", "--partition=p", "--time=5"}) {
    EXPECT_THAT(command, Contains(std::string(word)));
  }
  EXPECT_EQ(command.back(), "/a%b/service/batch.sh");
  const std::vector<std::string> plain = SbatchCommand(order, {.cores = 1}, {}, RunFolder("/a"));
  for (const char* word : {"--mem", "--gres", "--partition"}) {
    EXPECT_THAT(plain, Not(Contains(HasSubstr(word))));
  }
}

}  // namespace
}  // namespace downpour
