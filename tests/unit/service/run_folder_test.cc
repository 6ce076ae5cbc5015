#include "service/run_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest() { EXPECT_TRUE(run_.Make().ok()); }
  RunSeen WaitForEnd() const {
    for (;;) {
      const RunSeen seen = run_.Look();
      if (seen.started && !seen.alive) return seen;
      poll(nullptr, 0, 5);
    }
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(run_.job_dir() + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::string Named(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  ScratchFolder folder_;
  const RunFolder run_{folder_.path() + "/job"};
};

TEST_F(RunFolderTest, NothingIsThereOfAJobThatWasNeverStarted) {
  for (const RunSeen& seen : {run_.Look(), RunFolder(folder_.path() + "/none").Look()}) {
    EXPECT_FALSE(seen.alive || seen.started || seen.exit_code.has_value());
  }
}

TEST_F(RunFolderTest, ARunLeavesItsExitCodeAndItsWords) {
  ASSERT_TRUE(run_.Start({"/bin/sh", "-c", "echo hello; echo 'downpour run: no data' >&2; exit 3"}).ok());
  const RunSeen seen = WaitForEnd();
  EXPECT_EQ(seen.exit_code, 3);
  EXPECT_EQ(seen.error, "no data");
  EXPECT_THAT(Read("logs/service.log"), testing::HasSubstr("hello\n"));
}

TEST_F(RunFolderTest, WhatAProgramSaidLastBeforeItCameToNoModelIsTold) {
  const std::string fails = "; echo 'downpour run: the Python code t.task came to no model: it exited with 2'; exit 78";
  ASSERT_TRUE(
      run_.Start({"/bin/sh", "-c", "echo usage; echo 'task.py: error: no such arguments: --rat=1'" + fails}).ok());
  EXPECT_EQ(WaitForEnd().error,
            "the Python code t.task came to no model: it exited with 2: task.py: error: no such arguments: --rat=1");
  const RunFolder other(folder_.path() + "/other");
  ASSERT_TRUE(other.Make().ok());
  ASSERT_TRUE(
      other.Start({"/bin/sh", "-c", "echo word; echo 'downpour: t.task never called downpour.fit'" + fails}).ok());
  while (!other.Look().exit_code) poll(nullptr, 0, 5);
  EXPECT_EQ(other.Look().error, "t.task never called downpour.fit");
}

TEST_F(RunFolderTest, WhyAProgramWasEndedStandsBeforeWhereItWas) {
  ASSERT_TRUE(run_.Start({"/bin/sh", "-c",
                          "echo 'downpour: the program has not called downpour.fit for 30 s, at t.py:1'; "
                          "echo 'downpour stage: the Python code t has come to no model in 40 s: at t.py:2'; exit 124"})
                  .ok());
  EXPECT_EQ(WaitForEnd().error, "the Python code t has come to no model in 40 s: at t.py:2");
}

TEST_F(RunFolderTest, AWarningIsNoReasonForAnEnd) {
  ASSERT_TRUE(run_.Start({"/bin/sh", "-c",
                          "echo 'downpour run: warning: job.json:1: name: is long' >&2; "
                          "echo 'job.json:1: data.train.labels: are 3' >&2; exit 78"})
                  .ok());
  EXPECT_EQ(WaitForEnd().error, "job.json:1: data.train.labels: are 3");
}

TEST_F(RunFolderTest, OfALongLogTheEndAloneIsRead) {
  ASSERT_TRUE(run_.Start({"/bin/sh", "-c", "exit 3"}).ok());
  WaitForEnd();
  const std::string log = run_.job_dir() + "/logs/service.log";
  std::filesystem::resize_file(log, uintmax_t{1} << 40);  // of zeros, which take no room
  std::ofstream(log, std::ios::app) << "\ndownpour run: no data\n";
  EXPECT_EQ(run_.Look().error, "no data");
}

TEST_F(RunFolderTest, AnExitCodeThatCannotBeWrittenIsWrittenOnceThereIsRoom) {
  std::filesystem::create_directory(run_.Own("exit.new"));
  ASSERT_TRUE(run_.Start({"/bin/sh", "-c", "exit 3"}).ok());
  while (Read("logs/service.log").find("ended with exit code 3") == std::string::npos) poll(nullptr, 0, 5);
  EXPECT_TRUE(run_.Look().alive) << "the service would take it for killed";
  std::filesystem::remove(run_.Own("exit.new"));
  EXPECT_EQ(WaitForEnd().exit_code, 3);
}

TEST_F(RunFolderTest, ARunHasTheTimesOfItsMarks) {
  ASSERT_TRUE(run_.Start({"/bin/true"}).ok());
  WaitForEnd();
  const auto put = [&](const char* mark, int64_t ms) {
    const timespec at{.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000};
    const timespec times[2] = {at, at};
    EXPECT_EQ(utimensat(AT_FDCWD, run_.Own(mark).c_str(), times, 0), 0);
  };
  put("started", 1'700'000'000'123);
  put("exit", 1'700'000'004'567);
  const RunSeen seen = run_.Look();
  EXPECT_EQ(seen.started_ms, 1'700'000'000'123);
  EXPECT_EQ(seen.ended_ms, 1'700'000'004'567);
  EXPECT_EQ(RunFolder(folder_.path() + "/none").Look().started_ms, 0);
}

TEST_F(RunFolderTest, WithoutAShimsWordARunEndedWhenItWroteLast) {
  const auto put = [&](const std::string& path, int64_t seconds) {
    std::ofstream(path, std::ios::app) << "{}";
    const timespec at{.tv_sec = seconds, .tv_nsec = 0};
    const timespec times[2] = {at, at};
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  };
  put(run_.Own("started"), 1'700'000'000);
  EXPECT_EQ(run_.Look().ended_ms, 0) << "nothing says when";
  put(run_.job_dir() + "/metrics.jsonl", 1'600'000'000);
  EXPECT_EQ(run_.Look().ended_ms, 0) << "that is of a run before";
  put(run_.job_dir() + "/metrics.jsonl", 1'700'000'050);
  EXPECT_EQ(run_.Look().ended_ms, 1'700'000'050'000) << "it was killed together with its shim";
  put(run_.job_dir() + "/summary.json", 1'700'000'060);
  EXPECT_EQ(run_.Look().ended_ms, 1'700'000'060'000) << "it went on without its shim";
  put(run_.Own("exit"), 1'700'000'061);
  EXPECT_EQ(run_.Look().ended_ms, 1'700'000'061'000);
}

TEST_F(RunFolderTest, IsAliveUntilTheLastOfItsProcessesEnds) {
  const std::string fifo = folder_.path() + "/go";
  ASSERT_TRUE(run_.Start({"/bin/sh", "-c", "mkfifo " + fifo + "; (read word < " + fifo + ") & exit 0"}).ok());
  while (!std::filesystem::exists(run_.Own("exit"))) poll(nullptr, 0, 5);
  EXPECT_TRUE(run_.Look().alive) << "a child of the run holds the lock";
  EXPECT_FALSE(run_.Start({"/bin/true"}).ok());
  std::ofstream(fifo) << "on\n";
  EXPECT_EQ(WaitForEnd().exit_code, 0);
}

TEST_F(RunFolderTest, IsStartedOnlyOnce) {
  const std::string file = folder_.path() + "/runs";
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(run_.Start({"/bin/sh", "-c", "echo run >> " + file}).ok());
    EXPECT_EQ(WaitForEnd().exit_code, 0);
  }
  while (run_.Look().alive) poll(nullptr, 0, 5);
  std::ifstream runs(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(runs), {}), "run\n");
}

TEST_F(RunFolderTest, IsToldToStopAndTellsItsExitCodeStill) {
  ASSERT_TRUE(run_.Start({"/bin/sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done"}).ok());
  while (Read("logs/service.log").find("ready") == std::string::npos) poll(nullptr, 0, 5);
  ASSERT_TRUE(run_.Stop().ok());
  EXPECT_EQ(WaitForEnd().exit_code, 7);
}

TEST_F(RunFolderTest, ARunThatSucceededAfterItsShimWasKilledHasSucceeded) {
  std::ofstream(run_.Own("started")) << "1\n";
  std::ofstream(run_.job_dir() + "/logs/service.log") << "downpour run: chief at 127.0.0.1:1, 2 ps, 3 workers\n";
  EXPECT_EQ(run_.Look().exit_code, std::nullopt);
  EXPECT_EQ(run_.Look().error, "") << "what it said last is no reason";
  std::ofstream(run_.job_dir() + "/summary.json")
      << R"({"job": "j", "state": "FAILED", "errorMessage": "it diverged"})";
  EXPECT_EQ(run_.Look().exit_code, std::nullopt);
  EXPECT_EQ(run_.Look().error, "it diverged");
  std::ofstream(run_.job_dir() + "/summary.json") << R"({"job": "j", "state": "SUCCEEDED"})";
  EXPECT_EQ(run_.Look().exit_code, 0);
}

TEST_F(RunFolderTest, ARunThatWasKilledGivesNoOtherReason) {
  ASSERT_TRUE(run_.Start({"/bin/sh", "-c", "echo 'downpour run: chief at 127.0.0.1:1' >&2; kill -9 $$"}).ok());
  const RunSeen seen = WaitForEnd();
  EXPECT_EQ(seen.exit_code, 137);
  EXPECT_EQ(seen.error, "its run was killed (exit code 137)");
}

TEST_F(RunFolderTest, AStrangerWithTheShimsPidIsNotSignalled) {
  const pid_t stranger = fork();
  if (stranger == 0) {
    setpgid(0, 0);
    execl("/bin/sleep", "sleep", "1000", nullptr);
    _exit(127);
  }
  setpgid(stranger, stranger);  // whoever comes first
  while (Named(stranger).find("sleep") == std::string::npos) poll(nullptr, 0, 1);
  std::ofstream(run_.Own("started")) << stranger << "\n";
  EXPECT_FALSE(run_.Stop().ok());
  EXPECT_EQ(kill(stranger, SIGKILL), 0);
  int how = 0;
  waitpid(stranger, &how, 0);
  EXPECT_EQ(WTERMSIG(how), SIGKILL) << "it was told to stop";
}

TEST_F(RunFolderTest, ThatARunWasToldOutlivesTheService) {
  EXPECT_FALSE(run_.WasTold());
  run_.RememberTold(true);
  EXPECT_TRUE(RunFolder(run_.job_dir()).WasTold());
  run_.RememberTold(false);
  EXPECT_FALSE(run_.WasTold());
}

TEST_F(RunFolderTest, AProgramThatIsNotThereFails) {
  ASSERT_TRUE(run_.Start({"/none/downpour"}).ok());
  const RunSeen seen = WaitForEnd();
  EXPECT_EQ(seen.exit_code, 127);
  EXPECT_THAT(seen.error, testing::HasSubstr("/none/downpour"));
}

}  // namespace
}  // namespace downpour
