// What people tell the chief while it leads: to stop, and how many workers the job is to have.
#include "chief/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr PeerId kTool{99};

class CommandsTest : public ChiefRoleTest {
 protected:
  // As a tool names it that has just seen the status.
  Control Next(ControlKind kind, uint32_t workers = 0) {
    return {cluster->role->term(), cluster->role->commands() + 1, ++nonce_, kind, workers};
  }
  std::vector<ControlReply> Answers() const { return cluster->Sent<ControlReply>(kTool); }
  // The answer, or one without a sentence where there is none.
  ControlReply Tell(const Control& command) {
    const size_t before = Answers().size();
    cluster->Say(kTool, command);
    return Answers().size() > before ? Answers().back() : ControlReply{};
  }
  bool Accepts(const Control& command) { return Tell(command).verdict == ControlVerdict::kAccepted; }
  void Scale(uint32_t workers) { ASSERT_TRUE(Accepts(Next(ControlKind::kScale, workers))); }
  bool IsRetired(FakeMember& member) {
    cluster->Forget();
    cluster->Beat(member);
    const auto replies = cluster->Sent<HeartbeatReply>(member);
    return !replies.empty() && replies.back().retired && replies.back().to == member.id;
  }
  void Restart(JobSpec job = SmallJob()) {
    cluster = std::make_unique<ChiefHarness>(std::move(job), /*resume=*/false, cluster->disk);
    cluster->Start();
  }
  std::vector<std::string> Workers() const {
    std::vector<std::string> names;
    const nlohmann::json status = cluster->Status();
    for (const auto& task : status["tasks"]) {
      if (task["role"] == "worker") names.push_back(task["name"]);
    }
    return names;
  }
  Welcome JoinAsThird(int32_t index) {
    Join join = cluster->worker[0].join;
    join.nonce = 1234;
    join.index = index;
    cluster->Say(PeerId{77}, join);
    const auto welcomes = cluster->Sent<Welcome>(PeerId{77});
    return welcomes.empty() ? Welcome{} : welcomes.back();
  }

 private:
  uint64_t nonce_ = 1000;
};

TEST_F(CommandsTest, AStopEndsTheJobAsASigtermDoes) {
  StartRunning();
  cluster->ps[0].answers_snapshots = false;
  EXPECT_THAT(Tell(Next(ControlKind::kStop)).why, HasSubstr("after one last checkpoint"));
  EXPECT_EQ(cluster->role->state(), JobState::kCancelling);
  cluster->ps[0].answers_snapshots = true;
  cluster->Wait(3s);
  EXPECT_EQ(cluster->role->state(), JobState::kCancelled);
  SayGoodbye();
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(cluster->exit()->code, 143);
  EXPECT_THAT(cluster->exit()->why, HasSubstr("ended by downpour stop. The last checkpoint is checkpoints/1-1"));
  EXPECT_THAT(cluster->exit()->why, HasSubstr("downpour run j.yaml --resume"));
}

TEST_F(CommandsTest, AJobThatStillWaitsForItsTasksCanBeStopped) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->Start();
  EXPECT_TRUE(Accepts(Next(ControlKind::kStop)));
  cluster->Wait(1s);
  EXPECT_EQ(cluster->role->state(), JobState::kCancelled);
}

TEST_F(CommandsTest, ACheckpointIsWrittenWhenSomebodyWantsOne) {
  cluster = std::make_unique<ChiefHarness>(SmallJob({"checkpoint.every=0s"}));
  cluster->Start();
  const ControlReply early = Tell(Next(ControlKind::kCheckpoint));
  EXPECT_EQ(early.verdict, ControlVerdict::kRefused);
  EXPECT_THAT(early.why, HasSubstr("does not run yet"));
  cluster->RunToRunning();
  cluster->Wait(3s);
  EXPECT_FALSE(cluster->Status()["checkpoint"].contains("round")) << "the file wants none before the end";
  EXPECT_THAT(Tell(Next(ControlKind::kCheckpoint)).why, HasSubstr("a checkpoint of all that is committed by now"));
  cluster->Wait(3s);
  EXPECT_EQ(cluster->Status()["checkpoint"]["round"], "1-1");
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
  cluster->Wait(3s);
  EXPECT_EQ(cluster->Status()["checkpoint"]["round"], "1-1") << "one was wanted";
}

TEST_F(CommandsTest, AChiefThatStillReadsItsFolderSaysNothing) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->disk_hangs = true;
  cluster->Start();
  Tell({0, 1, 7, ControlKind::kStop, 0});
  Tell({1, 1, 7, ControlKind::kStop, 0});
  EXPECT_THAT(Answers(), IsEmpty());
  cluster->LetDiskGoOn();
  EXPECT_EQ(cluster->role->state(), JobState::kQueued);
  EXPECT_TRUE(Accepts(Next(ControlKind::kStop))) << "whoever needs an answer asks again";
}

TEST_F(CommandsTest, ACommandIsForOneChief) {
  StartRunning();
  const Control late = Next(ControlKind::kStop);
  Restart();
  EXPECT_EQ(Tell(late).verdict, ControlVerdict::kOutdated);
  EXPECT_EQ(cluster->role->state(), JobState::kQueued);
}

TEST_F(CommandsTest, ACommandIsObeyedOnceAndInItsPlace) {
  StartRunning();
  const Control first = Next(ControlKind::kScale, 1);
  EXPECT_TRUE(Accepts(first));
  EXPECT_TRUE(Accepts(first)) << "it is answered alike";
  EXPECT_EQ(cluster->role->commands(), 1u);
  const Control second = Next(ControlKind::kScale, 2);
  EXPECT_TRUE(Accepts(second));
  EXPECT_TRUE(Accepts(first)) << "a copy that comes late is answered, and changes nothing";
  EXPECT_EQ(cluster->role->commands(), 2u);
  EXPECT_EQ(cluster->role->worker_count(), 2);
  Control other = second;  // of a tool that saw the same status
  other.nonce = 5;
  other.workers = 1;
  EXPECT_EQ(Tell(other).verdict, ControlVerdict::kOutdated);
  EXPECT_EQ(cluster->role->worker_count(), 2);
  other.number = 9;
  EXPECT_EQ(Tell(other).verdict, ControlVerdict::kOutdated);
  EXPECT_EQ(cluster->Status()["chief"]["commands"], 2);
}

TEST_F(CommandsTest, OneThatHeardNoAnswerMayNumberItsCommandAnew) {
  StartRunning();
  const Control command = Next(ControlKind::kScale, 1);
  ASSERT_EQ(Tell(command).verdict, ControlVerdict::kAccepted);
  Control again = command;
  ++again.number;
  EXPECT_EQ(Tell(again).verdict, ControlVerdict::kAccepted);
  EXPECT_EQ(cluster->role->commands(), 1u) << "it is the same command";
}

TEST_F(CommandsTest, OneThatIsNumberedAnewAfterAnothersCommandIsKnownToo) {
  StartRunning();
  Control first = Next(ControlKind::kScale, 1);
  ASSERT_TRUE(Accepts(first));
  for (size_t i = 1; i < Commands::kMostAnswers; ++i) Scale(2);
  first.number = cluster->role->commands() + 1;
  EXPECT_THAT(Tell(first).why, HasSubstr("the job wants 1 worker now")) << "its answer, as it was then";
  EXPECT_EQ(cluster->role->commands(), Commands::kMostAnswers);
  EXPECT_EQ(cluster->role->worker_count(), 2);
}

TEST_F(CommandsTest, AStopDoesNotTakeBackANumberThatTheJournalIsAboutToHave) {
  StartRunning();
  cluster->ps[0].answers_snapshots = false;
  cluster->disk_hangs = true;
  const Control scale = Next(ControlKind::kScale, 1);
  Tell(scale);
  const Control late = Next(ControlKind::kScale, 2);
  EXPECT_TRUE(Accepts(Next(ControlKind::kStop)));
  Tell(scale);
  Control again = scale;
  again.number = cluster->role->commands() + 1;
  Tell(again);
  EXPECT_THAT(Answers(), SizeIs(1)) << "it is neither accepted nor refused yet";
  cluster->LetDiskGoOn();
  ASSERT_THAT(Answers(), SizeIs(2));
  EXPECT_EQ(Answers()[1].nonce, scale.nonce);
  EXPECT_EQ(Answers()[1].verdict, ControlVerdict::kAccepted);
  EXPECT_EQ(cluster->role->worker_count(), 1);
  EXPECT_EQ(Tell(late).verdict, ControlVerdict::kOutdated);
}

TEST_F(CommandsTest, ItTakesNoMoreWorkersThanItMayHaveOpenFilesFor) {
  StartRunning();
  const ControlReply reply = Tell(Next(ControlKind::kScale, 69));
  EXPECT_EQ(reply.verdict, ControlVerdict::kRefused);
  EXPECT_THAT(reply.why, HasSubstr("of the chief: with 2 ps and 69 workers this task needs 201 open files, and may "
                                   "have 200"));
  EXPECT_EQ(cluster->role->commands(), 0u);
  Scale(68);
}

TEST_F(CommandsTest, TheAnswerSaysHowManyMayJoinNow) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->Start();
  EXPECT_THAT(Tell(Next(ControlKind::kScale, 4)).why, HasSubstr("and wanted 2; 4 more may join"));
  EXPECT_THAT(Tell(Next(ControlKind::kScale, 1)).why, HasSubstr("and wanted 4; 1 more may join"));
  cluster->JoinWorker(0);
  EXPECT_THAT(Tell(Next(ControlKind::kScale, 3)).why, HasSubstr("and wanted 1; 2 more may join"));
  EXPECT_THAT(Tell(Next(ControlKind::kScale, 1)).why, ::testing::EndsWith("now, and wanted 3"));
}

TEST_F(CommandsTest, TheNumberOfWorkersIsInTheJournalBeforeAnythingRestsOnIt) {
  StartRunning();
  cluster->disk_hangs = true;
  const Control command = Next(ControlKind::kScale, 1);
  Tell(command);
  EXPECT_THAT(Answers(), IsEmpty());
  EXPECT_EQ(cluster->role->worker_count(), 2);
  EXPECT_FALSE(IsRetired(cluster->worker[1]));
  EXPECT_EQ(Tell(Next(ControlKind::kScale, 2)).verdict, ControlVerdict::kOutdated) << "it may come again";
  EXPECT_EQ(Tell(command).why, "") << "it is not there yet";
  cluster->LetDiskGoOn();
  EXPECT_EQ(Answers().back().verdict, ControlVerdict::kAccepted);
  EXPECT_EQ(cluster->role->worker_count(), 1);
  EXPECT_TRUE(IsRetired(cluster->worker[1]));
}

TEST_F(CommandsTest, NoLaterChiefForgetsIt) {
  StartRunning();
  Scale(1);
  Restart();
  EXPECT_EQ(cluster->role->worker_count(), 1);
  cluster->JoinWorker(1);
  const auto refusals = cluster->Sent<Refused>(cluster->worker[1]);
  ASSERT_THAT(refusals, SizeIs(1));
  EXPECT_EQ(refusals[0].code, RefusalCode::kNoSuchTask);
  EXPECT_EQ(refusals[0].run, ChiefHarness::kRun);
  Restart(SmallJob({"training.optimizer.learningRate=0.2"}));
  EXPECT_EQ(cluster->role->worker_count(), 1) << "its file says as many as before";
  Restart(SmallJob({"cluster.workerCount=4"}));
  EXPECT_EQ(cluster->role->worker_count(), 4) << "its file was changed since";
  Restart(SmallJob({"cluster.workerCount=4"}));
  EXPECT_EQ(cluster->role->worker_count(), 4);
}

TEST_F(CommandsTest, MoreMayJoin) {
  StartRunning();
  EXPECT_EQ(JoinAsThird(2).you, Incarnation::kNone);
  Scale(3);
  EXPECT_EQ(JoinAsThird(-1).name, "worker-2");
  EXPECT_EQ(cluster->Status()["workers"]["wanted"], 3);
  EXPECT_EQ(cluster->Status()["workers"]["jobFile"], 2);
  EXPECT_THAT(Workers(), ElementsAre("worker-0", "worker-1", "worker-2"));
}

TEST_F(CommandsTest, ThoseWithTheHighestNumbersLeaveAndOthersGetTheirLeases) {
  StartRunning();
  const std::vector<LeaseId> held = cluster->Ask(cluster->worker[1], 2);
  ASSERT_THAT(held, SizeIs(2));
  Scale(1);
  EXPECT_FALSE(IsRetired(cluster->worker[0]));
  EXPECT_FALSE(IsRetired(cluster->ps[1]));
  EXPECT_TRUE(IsRetired(cluster->worker[1]));
  EXPECT_THAT(Workers(), SizeIs(2)) << "it is there until it leaves";
  cluster->Finish(cluster->worker[1], held[0]);
  EXPECT_EQ(cluster->role->committed().Count(), 1u);
  cluster->worker[1].alive = false;
  cluster->Say(cluster->worker[1].control, Leave{cluster->worker[1].id, "the job needs it no more"});
  EXPECT_THAT(Workers(), ElementsAre("worker-0"));
  EXPECT_THAT(cluster->Status()["pending"], IsEmpty()) << "nobody waits for it";
  EXPECT_THAT(cluster->Ask(cluster->worker[0], 1), ElementsAre(held[1]));
  EXPECT_EQ(JoinAsThird(1).you, Incarnation::kNone);
  EXPECT_EQ(JoinAsThird(-1).you, Incarnation::kNone);
}

TEST_F(CommandsTest, ARetiredOneThatDiesIsMissedByNobody) {
  StartRunning();
  Scale(1);
  cluster->worker[1].alive = false;
  cluster->Wait(Timing{}.dead_after + 1s);
  EXPECT_THAT(Workers(), ElementsAre("worker-0"));
  Scale(2);
  EXPECT_THAT(Workers(), ElementsAre("worker-0", "worker-1"));
  EXPECT_EQ(cluster->TaskStatus("worker-1")["state"], "PENDING");
}

TEST_F(CommandsTest, WhoeverIsNeededAgainBeforeItHeardOfItStays) {
  StartRunning();
  Scale(1);
  Scale(2);
  EXPECT_FALSE(IsRetired(cluster->worker[1]));
}

// Else the job would fail for a worker that it does without, or go on though no other can prepare.
TEST_F(CommandsTest, AJobFailsWhereNoneOfTheWorkersThatItWantsCanPrepare) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->Start();
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  FakeMember& worker = cluster->JoinWorker(1);
  cluster->Say(worker.control, DataReport{worker.id, 0, 0, 0, "no such file"});
  Scale(1);
  cluster->Wait(1s);
  EXPECT_NE(cluster->role->state(), JobState::kFailed) << "worker-0 may have its data";
  FakeMember& other = cluster->JoinWorker(0);
  cluster->Say(other.control, DataReport{other.id, 0, 0, 0, "no such file"});
  cluster->Wait(1s);
  EXPECT_EQ(cluster->role->state(), JobState::kFailed);
}

TEST_F(CommandsTest, WhatCannotBeIsRefusedAndCountsForNothing) {
  StartRunning();
  for (const uint32_t workers : {0u, 1025u, UINT32_MAX}) {
    const ControlReply reply = Tell(Next(ControlKind::kScale, workers));
    EXPECT_EQ(reply.verdict, ControlVerdict::kRefused);
    EXPECT_THAT(reply.why, HasSubstr("a job has 1 to 1024 workers"));
  }
  EXPECT_EQ(cluster->role->commands(), 0u);
  cluster->ps[0].answers_snapshots = false;
  EXPECT_TRUE(Accepts(Next(ControlKind::kStop)));
  EXPECT_THAT(Tell(Next(ControlKind::kScale, 1)).why, HasSubstr("the job is being stopped"));
  EXPECT_THAT(Tell(Next(ControlKind::kCheckpoint)).why, HasSubstr("the job is being stopped"));
  EXPECT_TRUE(Accepts(Next(ControlKind::kStop))) << "it is, already";
  const Control after = Next(ControlKind::kStop);
  cluster->Wait(3 * Timing{}.dead_after + 1s);  // then the last round is given up
  ASSERT_EQ(cluster->role->state(), JobState::kCancelled);
  EXPECT_THAT(Tell(after).why, HasSubstr("the job is over: CANCELLED"));
}

}  // namespace
}  // namespace downpour
