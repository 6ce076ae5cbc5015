#include "cluster/local_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cluster/job_folder.h"
#include "runtime/posix/process.h"
#include "tests/unit/cluster/fake_chief.h"
#include "tests/unit/cluster/local_run_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(LocalRunTest, TheRunEndsWithTheChief) {
  folder_.Write("chief.json", R"({"endpoint": "127.0.0.1:2", "pid": 1})");  // of an earlier chief
  cluster_.worker_program = Script("worker", "echo \"$@\"; " + EndChief(0));
  const RunResult result = Run();
  EXPECT_EQ(result.chief_exit, 0);
  EXPECT_EQ(result.cause, "");
  EXPECT_EQ(result.stop_signal, 0);
  EXPECT_THAT(ReadTextFile(LogPath(folder_.path(), "worker-0")).value(), HasSubstr("--chief=127.0.0.1:1 --index=0"));
}

TEST_F(LocalRunTest, AKilledWorkerIsNamedAndStartedAgain) {
  cluster_.worker_program = Script("worker", "[ $attempt = 0 ] && kill -9 $$; " + EndChief(0));
  EXPECT_EQ(Run().chief_exit, 0);
  EXPECT_THAT(talk_, HasSubstr("ended: signal 9 (SIGKILL); started again as pid "));
}

TEST_F(LocalRunTest, AWorkerThatAlwaysDiesEndsTheJobWithItsFirstEnd) {
  cluster_.chief_program = ChiefUntilAsked();
  cluster_.worker_program = Script("worker", "[ $attempt = 0 ] && kill -9 $$; kill -11 $$");
  const RunResult result = Run();
  EXPECT_EQ(result.chief_exit, 143);
  EXPECT_THAT(result.cause,
              HasSubstr("worker-0 ended 6 times without progress of the job in between, the first time by "
                        "signal 9 (SIGKILL)"));
  EXPECT_EQ(result.stop_signal, 0);
  // The folder tells the same story.
  ASSERT_TRUE(result.summary.has_value());
  EXPECT_EQ(result.summary->state, "FAILED");
  EXPECT_EQ(result.summary->error, result.cause + ". There is no checkpoint yet: start it again with run it");
}

TEST_F(LocalRunTest, AWorkerThatComputesBetweenItsDeathsIsStartedAgainEachTime) {
  constexpr int kLives = RestartBudget::kMaxRestarts + 3;
  const auto pid_of_life = [&](int attempt) { return ReadTextFile(Path(absl::StrCat("life", attempt))).value_or(""); };
  // Says of the newest life that it computes: as a step, and as a failure since those are passed on aloud.
  FakeChief chief([&, attempt = 0]() mutable {
    while (!pid_of_life(attempt + 1).empty()) ++attempt;
    const std::string pid = pid_of_life(attempt);
    if (pid.empty()) return Encode(StatusReply{"{}"});
    return Encode(StatusReply{absl::StrCat(R"({"tasks": [{"name": "worker-0", "step": 1, "pid": )", pid,
                                           R"(}], "failures": [{"what": "life )", attempt, R"( computes"}]})")});
  });
  cluster_.chief_program = Script("chief", Announce(chief.endpoint()) + "read code <" + Path("fifo") + "; exit $code");
  cluster_.worker_program = Script("worker", "echo $$ >" + Path("new_life") + "; mv " + Path("new_life") + " " +
                                                 Path("life") + "$attempt; exec /bin/sleep 1000");
  std::vector<ActingBuffer::Cue> cues;
  for (int life = 0; life < kLives; ++life) {
    cues.push_back({absl::StrCat("life ", life, " computes"), [=] { kill(std::stoi(pid_of_life(life)), SIGKILL); }});
  }
  cues.back().action = [&] { std::ofstream(Path("fifo")) << "0\n"; };
  EXPECT_EQ(Run(cues).cause, "");
}

TEST_F(LocalRunTest, WhatFailedInAnEarlierRunIsNoNews) {
  FakeChief chief([later = UnixMs() + 600'000] {
    return Encode(StatusReply{
        absl::StrCat(R"({"failures": [{"task": "chief", "what": "was lost", "ageSeconds": 600, "unixMs": 1},
                                      {"task": "ps-1", "what": "fell silent", "ageSeconds": 600, "unixMs": )",
                     later, R"(}, {"task": "ps-0", "what": "is new", "ageSeconds": 0.1, "unixMs": )", later, "}]}")});
  });
  cluster_.chief_program = Script("chief", Announce(chief.endpoint()) + "read code <" + Path("fifo") + "; exit $code");
  cluster_.worker_program = Script("worker", "exec /bin/sleep 1000");
  Run({{"is new", [&] { std::ofstream(Path("fifo")) << "0\n"; }}});
  EXPECT_THAT(talk_, Not(HasSubstr("was lost")));
  EXPECT_THAT(talk_, HasSubstr("downpour run: ps-1: fell silent, 10 min 00 s ago\n")) << "while the chief was away";
  EXPECT_THAT(talk_, HasSubstr("downpour run: ps-0: is new\n"));
}

TEST_F(LocalRunTest, TheChiefOfAnotherRunAtItsPortIsToldOfAndNotHeard) {
  std::atomic<int> asked = 0;
  FakeChief chief([&] {
    if (++asked == 20) std::ofstream(Path("fifo")) << "0\n";
    return Encode(StatusReply{asked == 1 ? R"({"job": "ours", "run": "a", "failures": [{"what": "is new"}]})"
                                         : R"({"job": "other", "run": "b", "failures": [{"what": "is another's"}]})"});
  });
  cluster_.chief_program = Script("chief", Announce(chief.endpoint()) + "read code <" + Path("fifo") + "; exit $code");
  cluster_.worker_program = Script("worker", "exec /bin/sleep 1000");
  Run();
  EXPECT_THAT(talk_, HasSubstr("is new"));
  EXPECT_THAT(talk_, HasSubstr("the chief of another run now, of the job other"));
  EXPECT_THAT(talk_, Not(HasSubstr("is another's")));
}

// Each chief listens at the same address, and has its own pid for a secret.
TEST_F(LocalRunTest, AChiefThatIsStartedAgainIsAskedByItsOwnSecret) {
  std::vector<std::string> lives;
  FakeChief chief([&](const Message& said) {
    const auto location = ReadChiefLocation(folder_.path());
    const std::string& secret = std::get<StatusRequest>(said).secret;
    if (!location.ok() || secret != location->secret) {
      return Encode(Refused{.code = RefusalCode::kSecretWanted, .why = "it wants its secret"});
    }
    if (lives.empty() || lives.back() != secret) lives.push_back(secret);
    return Encode(StatusReply{absl::StrCat(R"({"failures": [{"what": "life )", lives.size(), R"( is asked"}]})")});
  });
  const std::string announcement =
      "{\"endpoint\": \"" + chief.endpoint() + "\", \"pid\": '$$', \"term\": '$$', " + "\"secret\": \"'$$'\"}";
  cluster_.chief_program = Script("chief", "echo '" + announcement + "' >" + Path("new") + "; mv " + Path("new") + " " +
                                               Path("chief.json") + "\nread code <" + Path("fifo") + "; exit $code");
  cluster_.worker_program = Script("worker", "exec /bin/sleep 1000");
  EXPECT_EQ(Run({{"life 1 is asked", [&] { kill(ReadChiefLocation(folder_.path())->pid, SIGKILL); }},
                 {"life 2 is asked", [&] { std::ofstream(Path("fifo")) << "0\n"; }}})
                .cause,
            "");
}

// The chief stays for a while, for those who watch.
TEST_F(LocalRunTest, WhoEndsAMomentBeforeItsChiefTellsOfTheEndIsNotStartedAgain) {
  std::atomic<int> asked = 0;
  FakeChief chief([&] {
    if (++asked == 150) std::ofstream(Path("fifo")) << "0\n";
    return Encode(StatusReply{std::filesystem::exists(Path("left")) ? R"({"state": "CANCELLED"})" : "{}"});
  });
  cluster_.chief_program = Script("chief", Announce(chief.endpoint()) + "read code <" + Path("fifo") + "; exit $code");
  cluster_.worker_program = Script("worker", Mark("left") + "exit 1");
  Run();
  EXPECT_THAT(talk_, HasSubstr("CANCELLED"));
  EXPECT_THAT(talk_, Not(HasSubstr("started again")));
}

// As many workers as the chief says; who leaves when there are fewer is missed by nobody, until it is wanted again.
TEST_F(LocalRunTest, ItFollowsTheChiefsWordOnHowManyWorkersThereAre) {
  std::atomic<int> wanted = 1;
  FakeChief chief([&] {
    return Encode(
        StatusReply{absl::StrCat(R"({"state": "RUNNING", "chief": {"term": 3}, "workers": {"wanted": )", wanted.load(),
                                 R"(}, "failures": [{"what": "asks for )", wanted.load(), R"("}]})")});
  });
  cluster_.chief_program = Script("chief", Announce(chief.endpoint()) + "read code <" + Path("fifo") + "; exit $code");
  cluster_.worker_program =
      Script("worker", "case \"$*\" in *--index=2*) trap 'exit 0' TERM; echo $$ >" + Path("new") + "; mv " +
                           Path("new") + " " + Path("third.$attempt") + ";; esac\nwhile :; do /bin/sleep 0.01; done");
  const auto end_third = [&](int attempt) {
    const std::string path = Path(absl::StrCat("third.", attempt));
    while (!ReadTextFile(path).ok()) sched_yield();
    kill(std::stoi(*ReadTextFile(path)), SIGTERM);
  };
  Run({{"asks for 1", [&] { wanted = 3; }},
       {"the job wants 3 workers now, and wanted 1",
        [&] {
          wanted = 2;
          end_third(0);
        }},
       {"the job wants 2 workers now, and wanted 3", [&] { wanted = 3; }},
       {"the job wants 3 workers now, and wanted 2", [&] { std::ofstream(Path("fifo")) << "0\n"; }}});
  EXPECT_THAT(talk_, Not(HasSubstr("worker-2 (pid")));
}

// Its chief wanted fewer, and then as many as before, faster than anybody looked.
TEST_F(LocalRunTest, WhoeverLeavesAJobThatGoesOnIsStartedAgain) {
  FakeChief chief(
      [] { return Encode(StatusReply{R"({"state": "RUNNING", "chief": {"term": 3}, "workers": {"wanted": 1}})"}); });
  cluster_.chief_program = Script("chief", Announce(chief.endpoint()) + "read code <" + Path("fifo") + "; exit $code");
  cluster_.ps_program = Script("ps", "exec /bin/sleep 1000");
  cluster_.worker_program = Script("worker", "[ $attempt = 0 ] && exit 0; exec /bin/sleep 1000");
  Run({{"worker-0 left at its chief's word; started again", [&] { std::ofstream(Path("fifo")) << "0\n"; }}});
}

TEST_F(LocalRunTest, WhoeverLeavesAtTheJobsEndIsNotStartedAgain) {
  FakeChief chief([answers = 0]() mutable {
    return Encode(StatusReply{absl::StrCat(
        R"({"state": "SUCCEEDED", "chief": {"term": 3}, "workers": {"wanted": 1}, "failures": [{"what": "answer )",
        ++answers, R"("}]})")});
  });
  cluster_.chief_program = Script("chief", Announce(chief.endpoint()) + "read code <" + Path("fifo") + "; exit $code");
  cluster_.worker_program = Script("worker", "exec /bin/sleep 1000");
  Run({{"answer 9", [&] { std::ofstream(Path("fifo")) << "0\n"; }}});
  EXPECT_THAT(talk_, Not(HasSubstr("started again")));
}

TEST_F(LocalRunTest, AWorkerThatAlwaysDiesDoesNotStopAnotherOneThatRuns) {
  cluster_.workers = 2;
  cluster_.worker_program =
      Script("worker", "case \"$*\" in *--index=1*) exec /bin/sleep 1000;; esac\n[ $attempt -lt 6 ] && kill -9 $$; " +
                           EndChief(0));
  const RunResult result = Run();
  EXPECT_EQ(result.chief_exit, 0);
  EXPECT_EQ(result.cause, "");
}

TEST_F(LocalRunTest, ASecondStartThatFailsIsTheCauseAndEndsTheStartsThatAreDue) {
  cluster_.chief_program = ChiefUntilAsked();
  cluster_.workers = 3;
  cluster_.worker_program = Script("worker", "rm -f $0; kill -9 $$");
  EXPECT_THAT(Run().cause, HasSubstr("cannot start " + cluster_.worker_program));
  EXPECT_THAT(talk_, ::testing::Not(HasSubstr("started again")));
}

TEST_F(LocalRunTest, AStartForWhichThereIsNoRoomNowIsTriedAgain) {
  cluster_.worker_program = Script("worker", "[ $attempt = 0 ] && kill -9 $$; " + EndChief(0));
  const RunResult result = Run(
      {{"downpour run: chief at", [&] { TakeDescriptors(); }}, {"worker-0: cannot open", [&] { GiveDescriptors(); }}});
  EXPECT_EQ(result.chief_exit, 0);
  EXPECT_EQ(result.cause, "");
  EXPECT_THAT(talk_, HasSubstr("worker-0.log: Too many open files; started again as pid "));
}

TEST_F(LocalRunTest, StartsForWhichThereIsNeverRoomEndTheJob) {
  cluster_.chief_program = ChiefUntilAsked();
  cluster_.worker_program = Script("worker", "kill -9 $$");
  const RunResult result = Run(
      {{"downpour run: chief at", [&] { TakeDescriptors(); }}, {"times without progress", [&] { GiveDescriptors(); }}});
  EXPECT_EQ(result.chief_exit, 143);
  EXPECT_THAT(result.cause,
              HasSubstr("worker-0 ended 6 times without progress of the job in between, the first time by "
                        "signal 9 (SIGKILL)"));
}

TEST_F(LocalRunTest, AfterGivingUpTheFirstSignalLeavesTheChiefItsTime) {
  cluster_.chief_program = Script("chief", "trap 'trap \"exit 99\" TERM; kill -INT $PPID; read code <" + Path("fifo") +
                                               "; exit $code' TERM\n" + Announce() + "read code <" + Path("fifo"));
  cluster_.ps_program = "/no/such/ps";
  const RunResult result = Run({{"stopping", [&] { std::ofstream(Path("fifo")) << "1\n"; }}});
  EXPECT_EQ(result.chief_exit, 1);
  EXPECT_EQ(result.stop_signal, SIGINT);
  EXPECT_THAT(result.cause, HasSubstr("/no/such/ps"));
}

TEST_F(LocalRunTest, AKilledServerIsNamedAndStartedAgain) {
  cluster_.ps_program = Script("ps", "[ $attempt = 0 ] && kill -9 $$; " + EndChief(0));
  EXPECT_EQ(Run().chief_exit, 0);
  EXPECT_THAT(talk_,
              ::testing::ContainsRegex("ps-0 \\(pid [0-9]+\\) ended: signal 9 \\(SIGKILL\\); started again as pid "));
}

TEST_F(LocalRunTest, AServerThatAlwaysDiesEndsTheJobThoughWorkersRun) {
  cluster_.chief_program = ChiefUntilAsked();
  cluster_.ps_program = Script("ps", "[ $attempt = 0 ] && exit 3; kill -9 $$");
  cluster_.worker_program = Script("worker", "exec /bin/sleep 1000");
  const RunResult result = Run();
  EXPECT_EQ(result.chief_exit, 143);
  EXPECT_THAT(result.cause, HasSubstr("ps-0 ended 6 times without progress of the job in between, the first time by "
                                      "exit code 3"));
}

TEST_F(LocalRunTest, AServerThatEndsByItselfLeavesTheWordToTheChief) {
  // Not by 1, which is a refusal of one that has led nothing yet, if it comes before the ps has ended.
  cluster_.ps_program = Script("ps", EndChief(3) + "; exit 1");
  const RunResult result = Run();
  EXPECT_EQ(result.chief_exit, 3);
  EXPECT_EQ(result.cause, "");
}

TEST_F(LocalRunTest, AKilledChiefIsStartedAgainWhereItListened) {
  // It leaves its mark before anybody can know of it, and kill it.
  const std::string mark = Path("again");
  cluster_.chief_program = Script("chief", "echo \"$@\"\n[ -e " + mark + " ] && again=yes\ntouch " + mark + "\n" +
                                               Announce() + "[ $again ] && exit 0\nread code <" + Path("fifo"));
  cluster_.worker_program = Script("worker", "kill -9 $(tr -dc '0-9:,' <" + Path("chief.json") +
                                                 " | cut -d: -f4 | cut -d, -f1)\n"
                                                 "exec /bin/sleep 1000");
  const RunResult result = Run();
  EXPECT_EQ(result.chief_exit, 0);
  EXPECT_EQ(result.cause, "");
  EXPECT_THAT(talk_,
              ::testing::ContainsRegex("chief \\(pid [0-9]+\\) ended: signal 9 \\(SIGKILL\\); started again as pid"));
  EXPECT_THAT(ReadTextFile(LogPath(folder_.path(), "chief")).value(), HasSubstr("--listen=127.0.0.1:1 "));
}

TEST_F(LocalRunTest, AChiefThatFindsTheJobOverLeavesTheSummaryOfTheOneBefore) {
  cluster_.chief_program =
      Script("chief", "[ -e " + Path("summary.json") + " ] && exit 0\n" + Announce() +
                          "echo '{\"state\": \"SUCCEEDED\", \"term\": 3}' >" + Path("summary.json") + "\nkill -9 $$");
  cluster_.worker_program = Script("worker", "exec /bin/sleep 1000");
  const RunResult result = Run();
  EXPECT_EQ(result.chief_exit, 0);
  ASSERT_TRUE(result.summary.has_value());
  EXPECT_EQ(result.summary->state, "SUCCEEDED");
}

TEST_F(LocalRunTest, AChiefThatIsKilledAfterItWroteOfTheEndHasTheLastWord) {
  cluster_.chief_program = Script("chief", "[ -e " + Path("summary.json") + " ] && exit 1\n" + Announce() +
                                               "echo '{\"state\": \"CANCELLED\", \"term\": 3, \"exitCode\": 143}' >" +
                                               Path("summary.json") + "\nkill -9 $$");
  const RunResult result = Run();
  EXPECT_EQ(result.cause, "");
  EXPECT_EQ(result.chief_exit, 143);
  EXPECT_EQ(result.summary->state, "CANCELLED");
  EXPECT_THAT(talk_, Not(HasSubstr("started again")));
}

TEST_F(LocalRunTest, AChiefThatIsAlwaysKilledEndsTheRun) {
  cluster_.chief_program = Script("chief", Announce() + "kill -9 $$");
  const RunResult result = Run();
  EXPECT_EQ(result.chief_exit, std::nullopt);
  EXPECT_THAT(result.cause, HasSubstr("chief ended 6 times without progress of the job in between, the first time by "
                                      "signal 9 (SIGKILL)"));
}

// Nobody asks it in so short a time.
TEST_F(LocalRunTest, AChiefThatJournalsProgressBeforeEachDeathIsStartedAgainEachTime) {
  constexpr int kLives = RestartBudget::kMaxRestarts + 3;
  cluster_.chief_program =
      Script("chief", absl::StrCat("n=$(cat ", Path("journalled"), " || echo 0); n=$((n+1)); echo $n >", Path("new_n"),
                                   "; mv ", Path("new_n"), " ", Path("journalled"), "\n[ $n = ", kLives,
                                   " ] && exit 0\n", Announce(), "kill -9 $$"));
  cluster_.worker_program = Script("worker", "exec /bin/sleep 1000");
  const RunResult result = Run();
  EXPECT_EQ(result.cause, "");
  EXPECT_EQ(result.chief_exit, 0);
}

TEST_F(LocalRunTest, AChiefThatCommitsBetweenItsDeathsIsStartedAgainEachTime) {
  constexpr int kLives = RestartBudget::kMaxRestarts + 3;
  const auto pid_of_life = [&](int life) { return ReadTextFile(Path(absl::StrCat("life", life))).value_or(""); };
  // Of the newest life: that it has committed leases, and the same as a failure, since those are passed on aloud.
  FakeChief chief([&, life = 0]() mutable {
    while (!pid_of_life(life + 1).empty()) ++life;
    return Encode(StatusReply{absl::StrCat(R"({"chief": {"pid": )", pid_of_life(life),
                                           R"(}, "progress": {"commits": 1}, "failures": [{"what": "life )", life,
                                           R"( commits"}]})")});
  });
  cluster_.chief_program =
      Script("chief", "n=0; while [ -e " + Path("life$n") + " ]; do n=$((n+1)); done\necho $$ >" + Path("new_life") +
                          "; mv " + Path("new_life") + " " + Path("life$n") + "\n" + Announce(chief.endpoint()) +
                          "read code <" + Path("fifo") + "; exit $code");
  cluster_.worker_program = Script("worker", "exec /bin/sleep 1000");
  std::vector<ActingBuffer::Cue> cues;
  for (int life = 0; life < kLives; ++life) {
    cues.push_back({absl::StrCat("life ", life, " commits"), [=] { kill(std::stoi(pid_of_life(life)), SIGKILL); }});
  }
  cues.back().action = [&] { std::ofstream(Path("fifo")) << "0\n"; };
  EXPECT_EQ(Run(cues).cause, "");
}

TEST_F(LocalRunTest, SigtermAsksTheChiefToEnd) {
  cluster_.chief_program = ChiefUntilAsked();
  cluster_.worker_program = Script("worker", "kill -TERM $PPID");
  const RunResult result = Run();
  EXPECT_EQ(result.chief_exit, 143);
  EXPECT_EQ(result.stop_signal, SIGTERM);
  EXPECT_EQ(result.cause, "");
}

TEST_F(LocalRunTest, CtrlCReachesTheChiefAsWhatItIs) {
  cluster_.chief_program = Script("chief", "trap 'exit 99' INT\n" + Announce() + "read code <" + Path("fifo"));
  cluster_.worker_program = Script("worker", "kill -INT $PPID");
  EXPECT_EQ(Run().chief_exit, 99);
}

TEST_F(LocalRunTest, ASecondSignalEndsEverythingAtOnce) {
  cluster_.chief_program = Script("chief", "trap '' TERM INT\n" + Announce() + "exec /bin/sleep 1000");
  cluster_.worker_program = Script("worker", "kill -INT $PPID; /bin/sleep 0.5; kill -INT $PPID; exec /bin/sleep 1000");
  const RunResult result = Run();
  EXPECT_EQ(result.chief_exit, std::nullopt);
  EXPECT_EQ(result.stop_signal, SIGINT);
}

TEST_F(LocalRunTest, AProgramThatIsNotThereIsTheCause) {
  cluster_.chief_program = "/no/such/chief";
  EXPECT_THAT(Run().cause, HasSubstr("/no/such/chief"));
}

}  // namespace
}  // namespace downpour
