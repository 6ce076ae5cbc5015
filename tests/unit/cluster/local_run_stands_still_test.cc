// Processes that run and do nothing, and chiefs that refuse to take another's place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/job_folder.h"
#include "cluster/local_run.h"
#include "tests/unit/cluster/fake_chief.h"
#include "tests/unit/cluster/local_run_fixture.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST_F(LocalRunTest, AWorkerThatStandsStillIsKilledAndStartedAgain) {
  pace_.patience = 50ms;
  for (const char* state : {"LOST", "PENDING"}) {
    // Of its first life: once that it is there, then that nobody hears of it.
    FakeChief chief([&, answers = 0]() mutable {
      const std::string pid = ReadTextFile(Path("life")).value_or("");
      if (pid.empty()) return Encode(StatusReply{"{}"});
      return Encode(StatusReply{absl::StrCat(R"({"tasks": [{"name": "worker-0", "pid": )", pid, R"(, "state": ")",
                                             ++answers == 1 ? "RUNNING" : state, R"("}]})")});
    });
    cluster_.chief_program =
        Script("chief", Announce(chief.endpoint()) + "read code <" + Path("fifo") + "; exit $code");
    cluster_.worker_program =
        Script("worker", "[ $attempt = 0 ] || { " + EndChief(0) + "; exit 0; }\n" + Mark("life") + "kill -STOP $$");
    const RunResult result = Run();
    EXPECT_EQ(result.chief_exit, 0);
    EXPECT_EQ(result.cause, "");
    EXPECT_THAT(talk_, HasSubstr("stands still, with no sign of life for more than "));
    EXPECT_THAT(talk_, HasSubstr("ended: signal 9 (SIGKILL), as it stood still; started again as pid "));
    fs::remove(Path("life"));
  }
}

// A chief that has answered often enough says so, and is ended.
class BeforeJoiningTest : public LocalRunTest {
 protected:
  static std::vector<Payload> StatusOf(const std::string& fields, bool enough) {
    return Encode(
        StatusReply{absl::StrCat("{", fields, R"(, "failures": [)", enough ? R"({"what": "enough"})" : "", "]}")});
  }
  const std::vector<ActingBuffer::Cue> end_chief_at_enough_ = {
      {"enough", [this] { std::ofstream(Path("fifo")) << "9\n"; }}};
};

TEST_F(BeforeJoiningTest, AWorkerThatNeverJoinsIsKilledAndStartedAgain) {
  pace_.start_patience = 50ms;
  for (const std::string row : {R"("state": "PENDING")", R"("state": "LEFT", "pid": 1)"}) {  // 1: that was there before
    FakeChief chief([&, answers = 0]() mutable {  // of its first life, as long as that is there
      const std::string pid = ReadTextFile(Path("life")).value_or("");
      const bool lives = !pid.empty() && kill(std::stoi(pid), 0) == 0;
      return StatusOf(lives ? R"("tasks": [{"name": "worker-0", )" + row + "}]" : R"("tasks": [])", ++answers > 1000);
    });
    cluster_.chief_program =
        Script("chief", Announce(chief.endpoint()) + "read code <" + Path("fifo") + "; exit $code");
    cluster_.worker_program =
        Script("worker", "[ $attempt = 0 ] || { " + EndChief(0) + "; exit 0; }\n" + Mark("life") +
                             "exec /bin/sleep 1000");
    const RunResult result = Run(end_chief_at_enough_);
    EXPECT_EQ(result.chief_exit, 0);
    EXPECT_EQ(result.cause, "");
    EXPECT_THAT(talk_, HasSubstr("stands still, and has not joined for more than "));
    EXPECT_THAT(talk_, HasSubstr("ended: signal 9 (SIGKILL), as it stood still; started again as pid "));
    fs::remove(Path("life"));
  }
}

TEST_F(BeforeJoiningTest, AWorkerIsGivenItsTime) {
  constexpr int kEnough = 50;  // far more than it would take to miss it
  struct Case {
    Duration start_patience;
    const char* status;
  };
  const Case cases[] = {
      {90s, R"("tasks": [{"name": "worker-0", "state": "PENDING"}])"},
      // Somebody else has its place: the chief tells it so, and it ends by itself.
      {20ms, R"("tasks": [{"name": "worker-0", "state": "RUNNING", "pid": 1}])"},
      // The chief is not ready, and takes nobody in.
      {20ms, R"("chief": {"term": 0}, "tasks": [{"name": "worker-0", "state": "PENDING"}])"},
  };
  pace_.patience = 20ms;
  for (const Case& one : cases) {
    pace_.start_patience = one.start_patience;
    FakeChief chief([&, answers = 0]() mutable { return StatusOf(one.status, ++answers >= kEnough); });
    cluster_.chief_program =
        Script("chief", Announce(chief.endpoint()) + "read code <" + Path("fifo") + "; exit $code");
    cluster_.worker_program = Script("worker", "exec /bin/sleep 1000");
    EXPECT_EQ(Run(end_chief_at_enough_).chief_exit, 9);
    EXPECT_THAT(talk_, ::testing::Not(HasSubstr("ended"))) << one.status;
  }
}

TEST_F(LocalRunTest, AChiefThatStandsStillIsKilledAndStartedAgain) {
  pace_.patience = 50ms;
  FakeChief chief([&, answers = 0]() mutable {  // once, of its first life
    const std::string pid = ReadTextFile(Path("life")).value_or("");
    if (pid.empty()) return Encode(StatusReply{"{}"});
    if (++answers > 1) return std::vector<Payload>();
    return Encode(StatusReply{absl::StrCat(R"({"chief": {"pid": )", pid, "}}")});
  });
  cluster_.chief_program = Script(
      "chief", "[ -e " + Path("life") + " ] && exit 0\n" + Announce(chief.endpoint()) + Mark("life") + "kill -STOP $$");
  cluster_.worker_program = Script("worker", "exec /bin/sleep 1000");
  const RunResult result = Run();
  EXPECT_EQ(result.chief_exit, 0);
  EXPECT_EQ(result.cause, "");
  EXPECT_THAT(talk_, ::testing::ContainsRegex("chief \\(pid [0-9]+\\) stands still, with no sign of life"));
  EXPECT_THAT(talk_, HasSubstr("ended: signal 9 (SIGKILL), as it stood still; started again as pid "));
}

// A chief that leads until it is killed; those after it answer, too, as they read their folder, then refuse `refusals`
// times, then one ends. Without `said` no answer tells whose it is.
class RefusingChiefTest : public LocalRunTest {
 protected:
  RunResult RunThroughRefusals(int refusals, bool said = true) {
    const auto pid_in = [this](const char* file) { return ReadTextFile(Path(file)).value_or(""); };
    const auto status_of = [](const std::string& pid, int term, const char* failure) {
      return Encode(StatusReply{absl::StrCat(R"({"chief": {"pid": )", pid, R"(, "term": )", term,
                                             R"(}, "failures": [{"what": ")", failure, R"("}]})")});
    };
    FakeChief chief([&, answered = std::string()]() mutable {
      const std::string life = pid_in("life"), later = pid_in("later");
      if (life.empty()) return Encode(StatusReply{"{}"});
      if (later.empty()) return status_of(said ? life : "0", 1, "it leads");
      if (std::exchange(answered, later) == later) std::ofstream(Path("heard")) << later;
      return status_of(said ? later : "0", 0, "it reads");
    });
    const std::string announce = Announce(chief.endpoint());
    cluster_.chief_program =
        Script("chief", "[ -e " + Path("life") + " ] || { " + announce + Mark("life") + "exec /bin/sleep 1000; }\n" +
                            "echo >>" + Path("refusals") + "; [ $(wc -l <" + Path("refusals") + ") -gt " +
                            std::to_string(refusals) + " ] && exit 0\n" + announce + Mark("later") +
                            "until [ \"$(cat " + Path("heard") + " 2>&1)\" = $$ ]; do /bin/sleep 0.01; done\n" +
                            "echo 'E 2024-11-20 10:43:05.123 the job folder cannot be written'; exit 1");
    cluster_.ps_program = cluster_.worker_program = Script("member", "exec /bin/sleep 1000");
    return Run({{"it leads", [&] { kill(std::stoi(pid_in("life")), SIGKILL); }}});
  }
};

TEST_F(RefusingChiefTest, ItIsTriedAgainWhileMembersHoldTheJob) {
  const RunResult result = RunThroughRefusals(2);
  EXPECT_EQ(result.chief_exit, 0);
  EXPECT_EQ(result.cause, "");
  EXPECT_THAT(talk_, HasSubstr("ended: exit code 1, its log ends with: the job folder cannot be written\n"));
}

TEST_F(RefusingChiefTest, ItIsTriedAgainThoughNobodyAskedTheOneBefore) {
  const RunResult result = RunThroughRefusals(2, /*said=*/false);
  EXPECT_EQ(result.chief_exit, 0);
  EXPECT_EQ(result.cause, "");
}

TEST_F(RefusingChiefTest, ItsBudgetEndsAndTheCauseStandsInTheFolder) {
  const RunResult result = RunThroughRefusals(1000);
  EXPECT_EQ(result.chief_exit, std::nullopt);
  EXPECT_THAT(result.cause,
              HasSubstr("the first time by signal 9 (SIGKILL), the last time by exit code 1, its log ends "
                        "with: the job folder cannot be written; see "));
  EXPECT_THAT(ReadTextFile(LogPath(folder_.path(), "run")).value(), HasSubstr(" the job is ended: " + result.cause));
}

}  // namespace
}  // namespace downpour
