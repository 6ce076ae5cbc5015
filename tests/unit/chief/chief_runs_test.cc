// Two runs that meet at one address, and a job folder that was put back to an earlier state while its tasks live.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>

#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr PeerId kOther{(uint64_t{1} << 32) + 1000};  // a process of the other run
constexpr uint64_t kOtherRun = ChiefHarness::kRun + 1;
constexpr int64_t kIn2026 = 1767225600000;

class ChiefRunsTest : public ChiefRoleTest {
 protected:
  ChiefRunsTest() {
    StartRunning();
    cluster->Forget();
  }
  uint64_t Rejected() const { return cluster->Status()["chief"]["rejected"]; }
};

// In a folder of its own each run begins alike: the other one has members of the same numbers.
TEST_F(ChiefRunsTest, WhoeverBeatsInAnotherRunIsToldToJoinThisOne) {
  const Incarnation twin = cluster->ps[0].id;
  const Heartbeat beat{.from = twin, .stats = {}, .log_lines = {"of another run"}};
  cluster->Say(kOther, beat, kOtherRun);
  const std::vector<Refused> told = cluster->Sent<Refused>(kOther);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].code, RefusalCode::kUnknown);
  EXPECT_FALSE(told[0].for_good);
  EXPECT_EQ(told[0].member, twin);
  EXPECT_EQ(told[0].run, kOtherRun) << "the run names the member, too";
  EXPECT_THAT(cluster->Sent<HeartbeatReply>(kOther), IsEmpty());
  EXPECT_EQ(Rejected(), 1u);
  cluster->Say(kOther, beat, 0);
  EXPECT_EQ(cluster->Sent<Refused>(kOther).back().run, 0u);
}

TEST_F(ChiefRunsTest, WhatIsSaidInAnotherRunChangesNothing) {
  FakeMember& worker = cluster->worker[0];
  FakeMember& server = cluster->ps[0];
  const LeaseId lease = cluster->Ask(worker, 1).at(0);
  cluster->Apply(lease);
  cluster->Forget();
  const Message foreign[] = {WorkRequest{worker.id, {}, 2, 1000},
                             cluster->Evidence(worker, lease),
                             EvalDone{.from = worker.id},
                             DataReport{worker.id, 1, 1, 1, ""},
                             Leave{server.id, "bye"},
                             Leave{worker.id, "bye"},
                             OpenBulk{server.id},
                             SliceReport{.from = server.id, .slices = {}},
                             ShardWritten{server.id, {}, "full", 0, {}},
                             Violation{server.id, worker.id, "so they say"}};
  uint64_t rejected = 0;
  for (const Message& message : foreign) {
    cluster->Say(kOther, message, kOtherRun);
    EXPECT_EQ(Rejected(), ++rejected) << NameOf(message);
  }
  for (const Effect& effect : cluster->effects) EXPECT_FALSE(std::holds_alternative<Send>(effect));
  EXPECT_FALSE(cluster->role->committed().Contains(ToNumber(lease)));
  for (const char* name : {"ps-0", "worker-0"}) EXPECT_EQ(cluster->TaskStatus(name)["state"], "RUNNING") << name;
  EXPECT_THAT(cluster->Ask(worker, 1, {lease}), SizeIs(1)) << "the other's higher number hides no request of its own";
}

TEST_F(ChiefRunsTest, AllThatItSaysIsSaidInItsRun) {
  cluster->Wait(1s);
  int sent = 0;
  for (const Effect& effect : cluster->effects) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    EXPECT_EQ(send->run, ChiefHarness::kRun) << NameOf(send->message);
    ++sent;
  }
  EXPECT_GE(sent, 4) << "answers to heartbeats";
}

TEST_F(ChiefRunsTest, AnswersToAJoinNameIt) {
  Join join = cluster->worker[0].join;
  join.number = 5;
  cluster->Say(cluster->worker[0].control, join);
  const Welcome welcome = cluster->Sent<Welcome>(cluster->worker[0]).back();
  EXPECT_EQ(welcome.nonce, join.nonce);
  EXPECT_EQ(welcome.number, 5u);
  ++join.nonce;
  cluster->Say(kOther, join, kOtherRun);
  EXPECT_EQ(cluster->Sent<Refused>(kOther).back().number, 5u) << "its name is taken";
  EXPECT_EQ(cluster->Sent<Refused>(kOther).back().member, Incarnation::kNone);
}

// Its own job may go on, elsewhere or later.
TEST_F(ChiefRunsTest, WhoIsOfAnotherRunIsNotToldOfTheEndOfThisOne) {
  TrainAndEvaluate();
  for (int i = 0; i < 60 && cluster->role->state() != JobState::kSucceeded; ++i) cluster->Wait(100ms);
  ASSERT_EQ(cluster->role->state(), JobState::kSucceeded);
  cluster->Forget();
  Join join = cluster->worker[0].join;
  join.nonce = 999;
  cluster->Say(kOther, Heartbeat{.from = cluster->worker[0].id, .stats = {}, .log_lines = {}}, kOtherRun);
  cluster->Say(kOther, join, kOtherRun);
  for (const Effect& effect : cluster->effects) EXPECT_FALSE(std::holds_alternative<Send>(effect));
  cluster->Say(kOther, join, 0);
  EXPECT_THAT(cluster->Sent<JobEnd>(kOther), SizeIs(1)) << "it is of no run";
}

TEST_F(ChiefRunsTest, TheTermFollowsTheClockAndNeverFalls) {
  const auto term = [this](int64_t unix_ms) {
    ChiefHarness chief(SmallJob(), false, cluster->disk);
    chief.unix_ms = unix_ms;
    chief.Start();
    return chief.role->term();
  };
  EXPECT_EQ(term(kIn2026), 2u) << "the next one, which is more than the clock reads";
  EXPECT_EQ(term(kIn2026 + 1000), 4u) << "four quarters of a second";
  EXPECT_EQ(term(kIn2026 + 1249), 5u) << "more than the clock reads";
  EXPECT_EQ(term(kIn2026 + 3600'000), 4u * 3600);
  EXPECT_EQ(term(kIn2026), 4u * 3600 + 1) << "the clock was set back";
  EXPECT_EQ(term(INT64_MIN), 4u * 3600 + 2);
  EXPECT_EQ(term(INT64_MAX), 4u * 3600 + 3) << "no such time";
  EXPECT_EQ(term(kIn2026 + int64_t{250} * UINT32_MAX), 4u * 3600 + 4) << "it would leave no term";
  const uint32_t last = UINT32_MAX - (1 << 24);
  EXPECT_EQ(term(kIn2026 + int64_t{250} * last), last);
  EXPECT_EQ(term(kIn2026 + int64_t{250} * last), last + 1);
}

// As from a backup, while the tasks of the chiefs since then live.
class PutBackTest : public ChiefRunsTest {
 protected:
  void StartChief(std::shared_ptr<MemoryDisk> disk, int64_t unix_ms) {
    auto next = std::make_unique<ChiefHarness>(SmallJob(), false, std::move(disk));
    next->now = cluster->now;
    next->unix_ms = unix_ms;
    for (int i = 0; i < 2; ++i) {
      Adopt(cluster->ps[i], next->ps[i]);
      Adopt(cluster->worker[i], next->worker[i]);
    }
    cluster = std::move(next);
    cluster->Start();
  }

 private:
  static void Adopt(const FakeMember& before, FakeMember& after) {
    after.join = before.join;
    after.join.run = ChiefHarness::kRun;
    after.join.was = before.id;
    after.slices = before.slices;
  }
};

TEST_F(PutBackTest, ItsNextChiefTakesATermThatTheTasksHaveNotSeen) {
  const auto backup = std::make_shared<MemoryDisk>(*cluster->disk);
  for (const LeaseId lease : cluster->Ask(cluster->worker[0], 2)) cluster->Finish(cluster->worker[0], lease);
  StartChief(cluster->disk, kIn2026 + 60'000);
  cluster->RunToRunning();
  const uint32_t before = cluster->role->term();
  StartChief(backup, kIn2026 + 120'000);
  cluster->RunToRunning();
  EXPECT_GT(cluster->role->term(), before);
  EXPECT_EQ(cluster->role->committed().Count(), 2u) << "what the servers hold goes on";
  TrainAndEvaluate();
  cluster->Wait(6s);
  EXPECT_EQ(cluster->role->state(), JobState::kSucceeded);
}

TEST_F(PutBackTest, WhereTheClockIsBehindTooTheTasksEndWithASentence) {
  const auto backup = std::make_shared<MemoryDisk>(*cluster->disk);
  for (int start = 0; start < 2; ++start) {
    StartChief(cluster->disk, 0);
    cluster->RunToRunning();
  }
  StartChief(backup, 0);
  ASSERT_EQ(cluster->role->term(), 2u);
  cluster->JoinPs(0);
  const std::vector<Refused> told = cluster->Sent<Refused>(cluster->ps[0]);
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(told[0].for_good);
  EXPECT_THAT(told[0].why, HasSubstr("a process of term 3 of this run asks a chief of term 2: the job folder was put"));
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("the job folder was put back"));
  cluster->ps[0].join.was = Incarnation{uint64_t{2} << 32 | 1};
  cluster->JoinPs(0);
  EXPECT_THAT(cluster->Sent<Welcome>(cluster->ps[0]), IsEmpty()) << "of its own term, but it gave that to nobody";
  cluster->ps[0].join.was = Incarnation::kNone;  // started again
  cluster->JoinPs(0);
  EXPECT_THAT(cluster->Sent<Welcome>(cluster->ps[0]), SizeIs(1));
}

}  // namespace
}  // namespace downpour
