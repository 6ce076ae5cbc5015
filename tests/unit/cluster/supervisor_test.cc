#include "cluster/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "runtime/process/child.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;

class SupervisorTest : public ::testing::Test {
 protected:
  void SetUp() override { supervisor_ = std::move(Supervisor::Create()).value(); }

  std::string LogPath() const { return ::testing::TempDir() + "/supervisor_test." + std::to_string(getpid()) + ".log"; }
  std::string Log() const {
    std::ifstream file(LogPath());
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void TearDown() override { std::remove(LogPath().c_str()); }

  ProcessSpec Shell(const std::string& script) const {
    return {.name = "task", .argv = {"/bin/sh", "-c", script}, .environment = {}, .log = LogPath()};
  }
  // Waits for the next news, whatever it is.
  Supervisor::News Next() {
    Supervisor::News news;
    while (news.exited.empty() && news.signals.empty()) {
      pollfd wait{supervisor_->fd(), POLLIN, 0};
      poll(&wait, 1, -1);
      news = supervisor_->Collect();
    }
    return news;
  }

  std::unique_ptr<Supervisor> supervisor_;
};

TEST_F(SupervisorTest, AnEndIsReportedWithItsCodeAndWordsGoToTheLog) {
  ASSERT_TRUE(supervisor_->Start(Shell("echo out; echo err >&2; exit 3")).ok());
  EXPECT_TRUE(supervisor_->IsRunning("task"));
  const Supervisor::News news = Next();
  ASSERT_EQ(news.exited.size(), 1u);
  EXPECT_EQ(news.exited[0].name, "task");
  EXPECT_EQ(DescribeEnd(news.exited[0].wait_status), "exit code 3");
  EXPECT_FALSE(supervisor_->IsRunning("task"));
  EXPECT_EQ(Log(), "out\nerr\n");
}

TEST_F(SupervisorTest, ALogIsAppendedTo) {
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(supervisor_->Start(Shell("echo again")).ok());
    Next();
  }
  EXPECT_EQ(Log(), "again\nagain\n");
}

TEST_F(SupervisorTest, ASignalIsSpelledOut) {
  ASSERT_TRUE(supervisor_->Start({"task", {"/bin/sleep", "1000"}, {}, LogPath()}).ok());
  supervisor_->Send("task", SIGKILL);
  EXPECT_EQ(DescribeEnd(Next().exited.at(0).wait_status), "signal 9 (SIGKILL)");
}

TEST_F(SupervisorTest, SeveralEndsAtOnceAreAllReported) {
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(supervisor_->Start({name, {"/bin/false"}, {}, LogPath()}).ok());
  size_t ended = 0;
  while (ended < 3) ended += Next().exited.size();
  EXPECT_EQ(supervisor_->running(), 0u);
}

TEST_F(SupervisorTest, AProgramThatIsNotThereIsNamed) {
  const absl::Status status = supervisor_->Start({"task", {"/no/such/program"}, {}, LogPath()});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot start /no/such/program"));
  EXPECT_EQ(supervisor_->running(), 0u);
}

TEST_F(SupervisorTest, ALogThatCannotBeOpenedIsNamed) {
  const absl::Status status = supervisor_->Start({"task", {"/bin/true"}, {}, "/no/such/folder/log"});
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/folder/log"));
}

TEST_F(SupervisorTest, TheEnvironmentIsOursAndTheAdditionsWin) {
  setenv("SUPERVISOR_TEST_KEPT", "kept", 1);
  setenv("SUPERVISOR_TEST_SET", "old", 1);
  ProcessSpec spec = Shell("echo $SUPERVISOR_TEST_KEPT $SUPERVISOR_TEST_SET");
  spec.environment = {{"SUPERVISOR_TEST_SET", "new"}};
  ASSERT_TRUE(supervisor_->Start(spec).ok());
  Next();
  EXPECT_EQ(Log(), "kept new\n");
}

TEST_F(SupervisorTest, SignalsToThisProcessAreNewsAndChildrenDoNotInheritTheBlock) {
  kill(getpid(), SIGTERM);
  EXPECT_THAT(Next().signals, ::testing::ElementsAre(SIGTERM));
  ASSERT_TRUE(supervisor_->Start(Shell("kill -TERM $$; echo survived")).ok());
  EXPECT_EQ(DescribeEnd(Next().exited.at(0).wait_status), "signal 15 (SIGTERM)");
}

TEST_F(SupervisorTest, ChildrenHearWhatTheCallerHasBlocked) {
  supervisor_.reset();
  sigset_t sigterm, before;
  sigemptyset(&sigterm);
  sigaddset(&sigterm, SIGTERM);
  sigprocmask(SIG_BLOCK, &sigterm, &before);
  supervisor_ = std::move(Supervisor::Create()).value();
  ASSERT_TRUE(supervisor_->Start(Shell("kill -TERM $$; echo survived")).ok());
  EXPECT_EQ(DescribeEnd(Next().exited.at(0).wait_status), "signal 15 (SIGTERM)");
  supervisor_.reset();
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(SupervisorTest, WhatTheCallerHasIgnoredStaysIgnored) {
  supervisor_.reset();
  std::signal(SIGHUP, SIG_IGN);  // as nohup does
  supervisor_ = std::move(Supervisor::Create()).value();
  kill(getpid(), SIGHUP);
  kill(getpid(), SIGTERM);
  EXPECT_THAT(Next().signals, ::testing::ElementsAre(SIGTERM));
  std::signal(SIGHUP, SIG_DFL);
}

// As roles do: whoever stops a service ends it so.
TEST_F(SupervisorTest, SigtermIsHeardThoughTheCallerIgnoresIt) {
  supervisor_.reset();
  std::signal(SIGTERM, SIG_IGN);
  supervisor_ = std::move(Supervisor::Create()).value();
  kill(getpid(), SIGTERM);
  std::signal(SIGTERM, SIG_DFL);
  EXPECT_THAT(supervisor_->Collect().signals, ::testing::ElementsAre(SIGTERM));
}

TEST_F(SupervisorTest, EndsAreSeenEvenIfTheCallerIgnoredThem) {
  supervisor_.reset();
  std::signal(SIGCHLD, SIG_IGN);
  supervisor_ = std::move(Supervisor::Create()).value();
  ASSERT_TRUE(supervisor_->Start(Shell("exit 3")).ok());
  EXPECT_EQ(DescribeEnd(Next().exited.at(0).wait_status), "exit code 3");
}

TEST_F(SupervisorTest, ChildrenHaveAGroupOfTheirOwn) {
  ASSERT_TRUE(supervisor_->Start({"task", {"/bin/sleep", "1000"}, {}, LogPath()}).ok());
  EXPECT_EQ(getpgid(supervisor_->PidOf("task")), supervisor_->PidOf("task"));
}

// As in a script that says `trap '' TERM`.
TEST_F(SupervisorTest, AChildIgnoresNoSignalToEndThoughThisProcessDoes) {
  for (const int ignored : {SIGTERM, SIGINT}) {
    const sighandler_t before = signal(ignored, SIG_IGN);
    ASSERT_TRUE(supervisor_->Start(Shell("kill -" + std::to_string(ignored) + " $$; exit 3")).ok());
    signal(ignored, before);
    EXPECT_EQ(WTERMSIG(Next().exited.at(0).wait_status), ignored);
  }
}

TEST_F(SupervisorTest, ASignalThatComesAtTheEndDoesNotEndTheProcessInPlaceOfIt) {
  const auto end_beside_a_signal = [this] {
    kill(getpid(), SIGTERM);
    supervisor_.reset();
    _exit(3);
  };
  EXPECT_EXIT(end_beside_a_signal(), ::testing::ExitedWithCode(3), "");
}

TEST_F(SupervisorTest, DestructionLeavesNobody) {
  ASSERT_TRUE(supervisor_->Start({"task", {"/bin/sleep", "1000"}, {}, LogPath()}).ok());
  const pid_t pid = supervisor_->PidOf("task");
  supervisor_.reset();
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

// A dead child that somebody traces is no news to its parent, as one that stands in the kernel is none.
TEST_F(SupervisorTest, AChildWhoseEndDoesNotComeHoldsNobodyUp) {
  ASSERT_TRUE(supervisor_->Start({"task", {"/bin/sleep", "1000"}, {}, LogPath()}).ok());
  const pid_t pid = supervisor_->PidOf("task");
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t tracer = fork();
  if (tracer == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char traces = ptrace(PTRACE_SEIZE, pid, 0, 0) == 0;
    if (write(pipe_fds[1], &traces, 1) == 1) pause();
    _exit(1);
  }
  char traces = 0;
  ASSERT_EQ(read(pipe_fds[0], &traces, 1), 1);
  if (traces) supervisor_->KillAll();
  EXPECT_EQ(supervisor_->running(), traces ? 0u : 1u);
  kill(tracer, SIGKILL);
  waitpid(tracer, nullptr, 0);
  if (!traces) GTEST_SKIP() << "no process may trace another one here";
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(DescribeEnd(status), "signal 9 (SIGKILL)");
}

// The grandchild is handed to this process, which sees how it ended.
TEST_F(SupervisorTest, NoChildOutlivesASupervisorThatIsKilled) {
  supervisor_.reset();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto supervisor = std::move(Supervisor::Create()).value();
    if (!supervisor->Start({"task", {"/bin/sleep", "1000"}, {}, LogPath()}).ok()) _exit(1);
    const pid_t pid = supervisor->PidOf("task");
    if (write(pipe_fds[1], &pid, sizeof(pid)) != sizeof(pid)) _exit(1);
    pause();
  }
  pid_t grandchild = 0;
  ASSERT_EQ(read(pipe_fds[0], &grandchild, sizeof(grandchild)), ssize_t{sizeof(grandchild)});
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  int status = 0;
  ASSERT_EQ(waitpid(grandchild, &status, 0), grandchild);
  EXPECT_EQ(DescribeEnd(status), "signal 9 (SIGKILL)");
}

}  // namespace
}  // namespace downpour
