// A run that is told to stop as its chief dies: the ps hold what no checkpoint has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "cluster/job_folder.h"
#include "cluster/local_run.h"
#include "tests/unit/cluster/fake_chief.h"
#include "tests/unit/cluster/local_run_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LocalRunEndTest : public LocalRunTest {
 protected:
  static constexpr int kNever = 1000;

  LocalRunEndTest() {
    cluster_.ps_program = Script("ps", "touch " + Path("here") + "; exec /bin/sleep 1000");
    cluster_.worker_program = Script("worker", "exec /bin/sleep 1000");
  }

  // Each life of it kills itself. Before that the one of number `told` tells the run to stop, once there is a ps. The
  // one of number `ends` ends in good order.
  std::string ChiefThatDies(int told, int ends, const std::string& endpoint = "127.0.0.1:1") const {
    return Script("chief", absl::StrCat("trap '' TERM\nn=$(cat ", Path("lives"), " || echo 0); n=$((n+1)); echo $n >",
                                        Path("lives"), "\n", Announce(endpoint), "[ $n = ", ends, " ] && exit 143\n",
                                        "[ $n = ", told, " ] && { until [ -e ", Path("here"),
                                        " ]; do :; done; kill -TERM $PPID; }\nkill -9 $$"));
  }
  int Lives() const { return std::stoi(ReadTextFile(Path("lives")).value_or("0")); }
};

TEST_F(LocalRunEndTest, AChiefThatDiesAsTheRunIsToldToStopIsStartedOnceMore) {
  const std::string mark = Path("again");
  cluster_.chief_program = Script("chief", "[ -e " + mark + " ] && again=yes\ntouch " + mark + "\n" + Announce() +
                                               "[ $again ] && exit 143\nread code <" + Path("fifo"));
  cluster_.worker_program = Script("worker", "until [ -e " + Path("here") +
                                                 " ]; do :; done\nkill -9 $(tr -dc '0-9:,' <" + Path("chief.json") +
                                                 " | cut -d: -f4 | cut -d, -f1)\n"
                                                 "kill -TERM $PPID\nexec /bin/sleep 1000");
  const RunResult result = Run();
  EXPECT_EQ(result.stop_signal, SIGTERM);
  EXPECT_EQ(result.chief_exit, 143);
  EXPECT_THAT(talk_, ::testing::ContainsRegex("chief \\(pid [0-9]+\\) ended: signal 9 \\(SIGKILL\\); started again"));
}

TEST_F(LocalRunEndTest, OneMoreChiefThatIsKilledDoesNotLoseWhatTheServersHold) {
  cluster_.chief_program = ChiefThatDies(/*told=*/1, /*ends=*/3);
  const RunResult result = Run();
  EXPECT_EQ(result.chief_exit, 143);
  EXPECT_EQ(result.leases_dropped, 0u);
}

// It leads now, and only whoever is asked ends in good order.
TEST_F(LocalRunEndTest, TheChiefThatIsStartedOnceMoreIsAskedToEndAsWell) {
  std::atomic<int> answers_of_the_next = 0;
  FakeChief chief([&] {
    const int pid = std::stoi(ReadTextFile(Path("chief_pid")).value_or("0"));
    const bool is_next = ReadTextFile(Path("next")).ok();
    if (is_next && ++answers_of_the_next == 200) std::ofstream(Path("enough")) << "it was not asked";
    return Encode(StatusReply{absl::StrCat(R"({"chief": {"term": 3, "pid": )", pid, R"(}, "failures": [{"what": ")",
                                           pid == 0 ? "comes" : "leads", R"("}]})")});
  });
  cluster_.chief_program =
      Script("chief", "trap '' TERM\n[ -e " + Path("chief_pid") + " ] && trap 'exit 143' TERM && touch " +
                          Path("next") + "\n" + Mark("chief_pid") + Announce(chief.endpoint()) + "until [ -e " +
                          Path("enough") + " ]; do :; done");
  const RunResult result =
      Run({{"leads", [] { raise(SIGTERM); }},
           {"stopping", [&] { kill(std::stoi(ReadTextFile(Path("chief_pid")).value()), SIGKILL); }}});
  EXPECT_EQ(result.chief_exit, 143);
}

// It waits as its budget says, and whoever wants the end is not to.
TEST_F(LocalRunEndTest, AChiefThatIsDueLaterIsStartedAtOnceForTheEnd) {
  pace_.restarts = {.shortest = 3600s, .longest = 3600s};
  cluster_.ps_program = Script("ps", Mark("ps_pid") + "exec /bin/sleep 1000");
  cluster_.chief_program = Script("chief", "[ -e " + Path("dead") + " ] && again=yes\n" + Announce() +
                                               "[ $again ] && exit 143\nuntil [ -e " + Path("ps_pid") +
                                               " ]; do :; done\n" + Mark("dead") + "kill -9 $$");
  cluster_.worker_program =
      Script("worker", "until [ -e " + Path("dead") + " ]; do :; done\nwhile kill -0 $(cat " + Path("dead") +
                           "); do :; done\nkill -TERM $PPID\nexec /bin/sleep 1000");
  EXPECT_EQ(Run().chief_exit, 143);
}

// Its budget is of a job that goes on; the end of this one is no failure.
TEST_F(LocalRunEndTest, AChiefMayDieOnceMoreThoughItsBudgetIsSpent) {
  cluster_.chief_program = ChiefThatDies(/*told=*/RestartBudget::kMaxRestarts + 1, RestartBudget::kMaxRestarts + 2);
  const RunResult result = Run();
  EXPECT_EQ(result.cause, "");
  EXPECT_EQ(result.chief_exit, 143);
}

TEST_F(LocalRunEndTest, WhatKillsEachChiefDoesNotHoldUpTheEndForEver) {
  cluster_.chief_program = ChiefThatDies(/*told=*/1, kNever);
  const RunResult result = Run();
  EXPECT_EQ(result.chief_exit, std::nullopt);
  EXPECT_EQ(result.cause, "");
  EXPECT_EQ(Lives(), 1 + LocalRun::kMostLastChiefs);
}

TEST_F(LocalRunEndTest, AfterItsTimeNoMoreChiefIsStarted) {
  pace_.last_chiefs_within = Duration::zero();
  cluster_.chief_program = ChiefThatDies(/*told=*/1, /*ends=*/2);
  EXPECT_EQ(Run().chief_exit, std::nullopt);
  EXPECT_EQ(Lives(), 1);
}

TEST_F(LocalRunEndTest, WhatNoChiefLivedToWriteIsCounted) {
  FakeChief chief([] {
    return Encode(StatusReply{
        R"({"state": "RUNNING", "progress": {"leasesCommitted": 45}, "failures": [{"what": "has committed"}]})"});
  });
  pace_.last_chiefs_within = Duration::zero();
  cluster_.chief_program =
      Script("chief", Mark("chief_pid") + Announce(chief.endpoint()) + "read code <" + Path("fifo"));
  const RunResult result = Run({{"has committed", [&] {
                                   raise(SIGTERM);  // of this thread: the fake chief's do not block it
                                   kill(std::stoi(ReadTextFile(Path("chief_pid")).value()), SIGKILL);
                                 }}});
  EXPECT_EQ(result.chief_exit, std::nullopt);
  EXPECT_EQ(result.leases_dropped, 45u);
}

// What it held since the last checkpoint is lost, and a chief would wait for it.
TEST_F(LocalRunEndTest, WhereAServerIsDeadTooNoChiefIsStarted) {
  cluster_.servers = 2;
  pace_.restarts = {.shortest = 3600s, .longest = 3600s};
  cluster_.ps_program =
      Script("ps", "case \"$*\" in *--index=1*) " + Mark("dead") + "kill -9 $$;; esac\nexec /bin/sleep 1000");
  cluster_.chief_program = ChiefThatDies(/*told=*/1, /*ends=*/2);
  // Once the run has taken its end in, there is no process of that number any more.
  cluster_.worker_program =
      Script("worker", "until [ -e " + Path("dead") + " ]; do :; done\nwhile kill -0 $(cat " + Path("dead") +
                           "); do :; done\ntouch " + Path("here") + "\nexec /bin/sleep 1000");
  EXPECT_EQ(Run().chief_exit, std::nullopt);
  EXPECT_EQ(Lives(), 1);
}

// It has told of the end, and not written it.
TEST_F(LocalRunEndTest, AChiefThatDiesBeforeItsSummaryIsNoFailureOfARunThatIsToStop) {
  std::atomic<bool> stopping = false;
  FakeChief chief([&] {
    return Encode(StatusReply{stopping ? R"({"state": "CANCELLED"})" : R"({"failures": [{"what": "leads"}]})"});
  });
  cluster_.chief_program =
      Script("chief", "trap '' TERM\n[ -e " + Path("chief_pid") + " ] && again=yes\n" + Mark("chief_pid") +
                          Announce(chief.endpoint()) + "[ $again ] && exit 143\nread code <" + Path("fifo"));
  const RunResult result =
      Run({{"leads", [] { raise(SIGTERM); }},
           {"stopping", [&] { stopping = true; }},
           {"CANCELLED", [&] { kill(std::stoi(ReadTextFile(Path("chief_pid")).value()), SIGKILL); }}});
  EXPECT_EQ(result.cause, "");
  EXPECT_EQ(result.chief_exit, 143);
}

}  // namespace
}  // namespace downpour
