// A chief that comes back: nobody is dead for its absence, and what slices and workers still hold goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "chief/shutdown.h"
#include "schema/checkpoint_format.h"
#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Leases 0 and 1 are in a checkpoint, 2 and 3 only in the slices, when the chief is killed.
class ChiefRestartTest : public ChiefRoleTest {
 protected:
  ChiefRestartTest() {
    StartRunning();
    for (int round = 0; round < 2; ++round) {
      for (const LeaseId lease : cluster->Ask(cluster->worker[0], 2)) cluster->Finish(cluster->worker[0], lease);
      if (round == 0) cluster->Wait(11s);
    }
    EXPECT_EQ(cluster->role->committed().Count(), 4u);
  }
  // As the list of failures tells them.
  uint64_t SkipsListed() const {
    uint64_t skips = 0;
    const nlohmann::json status = cluster->Status();
    for (const auto& failure : status["failures"]) {
      unsigned long long n = 0;
      if (std::sscanf(failure["what"].get<std::string>().c_str(), "skipped %llu", &n) == 1) skips += n;
    }
    return skips;
  }
};

TEST_F(ChiefRestartTest, NothingIsComputedAgainIfTheServersLive) {
  Restart();
  EXPECT_EQ(cluster->role->term(), 2u);
  cluster->RunToRunning();
  EXPECT_THAT(cluster->role->epochs(), ElementsAre(SliceEpoch{2, 1}, SliceEpoch{2, 1}));
  EXPECT_EQ(cluster->role->committed().Count(), 4u) << "two more than the checkpoint has";
  EXPECT_EQ(cluster->Status()["recovery"]["chiefRestarts"], 1);
  EXPECT_EQ(cluster->Status()["recovery"]["batchesRecomputed"], 0);
  EXPECT_THAT(cluster->Status()["failures"], SizeIs(1)) << "its own restart";
  TrainAndEvaluate();
  cluster->Wait(6s);
  EXPECT_EQ(cluster->role->state(), JobState::kSucceeded);
  SayGoodbye();
  EXPECT_EQ(Summary()["samplesCommitted"], 24);
  EXPECT_EQ(Summary()["chiefRestarts"], 1);
}

// They join a moment later, with two leases that no checkpoint has.
TEST_F(ChiefRestartTest, AStopBeforeTheServersAreHereLosesNothingThatTheyHold) {
  Restart();
  cluster->Stop(15);
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  cluster->Wait(10s);
  EXPECT_THAT(Summary()["checkpoint"].get<std::string>(), HasSubstr("2-1"));
  EXPECT_EQ(Summary()["samplesCommitted"], 16);
}

// Somebody deleted the folder of checkpoints, and the chief died too: the slices are all that is left.
TEST_F(ChiefRestartTest, WhereCheckpointsAreGoneWhatTheServersHoldGoesOn) {
  cluster->disk->Carry(Remove(ManifestPath({1, 1})));
  Restart();
  cluster->RunToRunning();
  EXPECT_EQ(cluster->role->committed().Count(), 4u);
  EXPECT_THAT(cluster->Status()["checkpoint"]["lastError"], HasSubstr("checkpoints/1-1/MANIFEST is gone"));
  EXPECT_FALSE(cluster->Status()["checkpoint"].contains("round"));
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("checkpoints/1-1/MANIFEST is gone"));
  cluster->Wait(11s);
  EXPECT_EQ(cluster->Status()["checkpoint"]["round"], "2-1");
  EXPECT_EQ(cluster->Status()["checkpoint"]["lastError"], "");
}

TEST_F(ChiefRestartTest, WhereAPsIsGoneTooTheJobEndsInsteadOfItsTraining) {
  cluster->disk->Carry(Remove(ManifestPath({1, 1})));
  cluster->ps[0].slices.clear();
  Restart();
  cluster->ps[0].join.was = Incarnation::kNone;
  cluster->ps[0].join.nonce = 4242;
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  cluster->Wait(10s);
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(cluster->exit()->code, 1);
  EXPECT_THAT(cluster->exit()->why, HasSubstr("checkpoints/1-1/MANIFEST is gone. Bring its files back"));
  EXPECT_THAT(cluster->exit()->why, HasSubstr("--give_up=1-1"));
  EXPECT_THAT(cluster->ps[0].slices, IsEmpty());
}

TEST_F(ChiefRestartTest, AnOlderCheckpointThatIsGoneOnFromIsSaidToBeOne) {
  cluster->Wait(10s);
  ASSERT_EQ(cluster->Status()["checkpoint"]["round"], "1-2");
  cluster->disk->Carry(Remove(ManifestPath({1, 2})));
  Restart();
  EXPECT_THAT(cluster->Status()["failures"].dump(),
              HasSubstr("checkpoints/1-2/MANIFEST is gone; the job continues from an older"));
}

// The list of failures outlives the chief.
TEST_F(ChiefRestartTest, WhatAPsSkippedIsListedOnceWhoeverLed) {
  cluster->ps[0].stats.pushes_skipped = 2;
  cluster->Wait(2s);
  ASSERT_EQ(SkipsListed(), 2u);
  Restart();
  cluster->ps[0].stats.pushes_skipped = 5;  // three of them while no chief was there
  cluster->RunToRunning();
  cluster->Beat(cluster->ps[0]);
  EXPECT_EQ(cluster->Status()["pushes"]["skipped"], 5);
  EXPECT_EQ(SkipsListed(), 5u);
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("skipped 3 pushes"));
}

TEST_F(ChiefRestartTest, WhoComesInThePlaceOfAPsHasSkipsOfItsOwn) {
  cluster->ps[0].stats.pushes_skipped = 2;
  cluster->Wait(2s);
  cluster->ps[0].slices.clear();
  Restart();
  cluster->ps[0].join.was = Incarnation::kNone;
  cluster->ps[0].join.nonce = 4242;
  cluster->ps[0].stats.pushes_skipped = 1;
  cluster->RunToRunning();
  cluster->Beat(cluster->ps[0]);
  EXPECT_EQ(SkipsListed(), 3u);
}

TEST_F(ChiefRestartTest, ItKnowsItsDataAndSinceWhenTheJobRuns) {
  Restart();
  EXPECT_EQ(cluster->Status()["startTimeUnixMs"], 1700000000000);
  cluster->JoinPs(0);
  cluster->JoinPs(1);
  cluster->Wait(1s);
  EXPECT_THAT(cluster->ps[0].slices, SizeIs(1)) << "placed before any worker has told of its data";
  cluster->ReportData(cluster->JoinWorker(0), ChiefHarness::kFingerprint + 1);
  EXPECT_EQ(cluster->TaskStatus("worker-0")["state"], "REFUSED");
}

TEST_F(ChiefRestartTest, LeasesThatAreStillComputedStayTheirHolders) {
  const std::vector<LeaseId> held = cluster->Ask(cluster->worker[1], 2);
  ASSERT_THAT(held, ElementsAre(LeaseId{4}, LeaseId{5}));
  Restart();
  cluster->RunToRunning();
  EXPECT_THAT(cluster->Ask(cluster->worker[1], 0, held), IsEmpty());
  EXPECT_THAT(cluster->Ask(cluster->worker[0], 2), IsEmpty()) << "they are held";
  cluster->Finish(cluster->worker[1], held[0]);
  EXPECT_EQ(cluster->role->committed().Count(), 5u);
}

TEST_F(ChiefRestartTest, EvidenceOfTheEarlierTermCommitsNothing) {
  const LeaseId lease = cluster->Ask(cluster->worker[0], 1).at(0);
  const LeaseDone late = cluster->Evidence(cluster->worker[0], lease);
  Restart();
  cluster->RunToRunning();
  cluster->Say(cluster->worker[0].control, late);
  ASSERT_THAT(cluster->Sent<LeaseDoneReply>(cluster->worker[0]), SizeIs(1));
  EXPECT_FALSE(cluster->Sent<LeaseDoneReply>(cluster->worker[0])[0].committed);
}

// Faults 5: a chief and a ps die together.
TEST_F(ChiefRestartTest, APsThatDiedWithItGetsItsSlicesFromTheCheckpoint) {
  cluster->Wait(6s);
  cluster->ps[1].slices.clear();
  Restart();
  cluster->ps[1].join.was = Incarnation::kNone;
  cluster->ps[1].join.nonce = 4242;
  cluster->RunToRunning();
  EXPECT_EQ(cluster->ps[0].slices.begin()->second.finished.Count(), 4u);
  EXPECT_EQ(cluster->ps[1].slices.begin()->second.finished.Count(), 2u);
  EXPECT_EQ(cluster->role->committed().Count(), 2u);
  const nlohmann::json status = cluster->Status();
  EXPECT_EQ(status["recovery"]["psLost"], 1);
  EXPECT_EQ(status["recovery"]["batchesRecomputed"], 2 * SmallJob().training.lease_batches);
  EXPECT_THAT(status["failures"].dump(), HasSubstr("its process ended while no chief was there"));
}

// Whoever has to be there is there for the first time.
TEST_F(ChiefRestartTest, WhatNeverHeldASliceIsNoLoss) {
  auto first = std::make_unique<ChiefHarness>(SmallJob(), false);
  first->Start();
  first->JoinPs(0);
  first->JoinWorker(0);
  auto next = std::make_unique<ChiefHarness>(SmallJob(), false, first->disk);
  next->now = first->now;
  cluster = std::move(next);
  cluster->Start();
  cluster->RunToRunning();
  EXPECT_EQ(cluster->Status()["recovery"]["chiefRestarts"], 1);
  EXPECT_EQ(cluster->Status()["recovery"]["psLost"], 0);
}

TEST_F(ChiefRestartTest, APsThatSaysItHoldsWhatItLostCostsItsSlicesAnOlderState) {
  cluster->ps[1].slices.clear();
  Restart();
  cluster->RunToRunning();
  EXPECT_EQ(cluster->role->committed().Count(), 2u);
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("it is not held here"));
}

// Who trains on with more ps than before has lost none of them.
TEST_F(ChiefRestartTest, APsThatTheJobDidNotHaveBeforeIsNoLostOne) {
  StartRunning({"cluster.parameterServerCount=1"});
  for (const LeaseId lease : cluster->Ask(cluster->worker[0], 2)) cluster->Finish(cluster->worker[0], lease);
  cluster->Wait(11s);
  Restart();
  cluster->ps[1].join.run = 0;
  cluster->RunToRunning();
  EXPECT_EQ(cluster->role->committed().Count(), 2u);
  EXPECT_EQ(cluster->Status()["recovery"]["psLost"], 0);
  EXPECT_THAT(cluster->Status()["failures"].dump(), Not(HasSubstr("ps-1")));
}

// Protocol rule A9: of two that claim a slice one gets it, and the other's epoch is over.
TEST_F(ChiefRestartTest, OfTwoThatClaimOnePlaceTheFirstGetsIt) {
  const FakeMember old = cluster->ps[0];
  Restart();
  cluster->RunToRunning();
  Join other = old.join;
  other.nonce = 999;
  cluster->Say(PeerId{uint64_t{1} << 40}, other);
  ASSERT_THAT(cluster->Sent<Refused>(PeerId{uint64_t{1} << 40}), SizeIs(1));
  EXPECT_EQ(cluster->Sent<Refused>(PeerId{uint64_t{1} << 40})[0].code, RefusalCode::kNameTaken);
}

TEST_F(ChiefRestartTest, APsThatStoodStillIsNotBelievedOverTheCheckpoint) {
  cluster->ps[0].slices.begin()->second.finished = IntervalSet();
  Restart();
  cluster->RunToRunning();
  EXPECT_EQ(cluster->role->committed().Count(), 2u) << "what the checkpoint has, and the other ps has more";
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("lacks leases of the newest checkpoint"));
}

TEST_F(ChiefRestartTest, APsThatDoesNotComeBackFailsTheJob) {
  Restart(SmallJob({"timing.serverWait=60s"}));
  cluster->JoinPs(0);
  cluster->ReportData(cluster->JoinWorker(0));
  cluster->Wait(59s);
  EXPECT_EQ(cluster->role->state(), JobState::kQueued);
  cluster->Wait(2s);
  EXPECT_EQ(cluster->role->state(), JobState::kFailed);
  const std::string error = cluster->Status()["errorMessage"];
  EXPECT_THAT(error, HasSubstr("ps-1 did not come back since the chief was started again"));
  EXPECT_THAT(error, HasSubstr("checkpoints/1-1"));
}

TEST_F(ChiefRestartTest, EvenWithoutPatienceAPsMayCallFirst) {
  Restart(SmallJob({"timing.serverWait=0s"}));
  cluster->RunToRunning();
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
}

TEST_F(ChiefRestartTest, WhatTheJobHasCostIsNotForgotten) {
  cluster->Ask(cluster->worker[1], 1);
  cluster->worker[1].alive = false;
  cluster->Wait(6s);
  const nlohmann::json before = cluster->Status();
  ASSERT_EQ(before["recovery"]["workersLost"], 1);
  Restart();
  cluster->RunToRunning();
  const nlohmann::json after = cluster->Status();
  for (const char* count : {"workersLost", "psLost", "leasesHandedOn", "batchesRecomputed"}) {
    EXPECT_EQ(after["recovery"][count], before["recovery"][count]) << count;
  }
  EXPECT_THAT(after["failures"].dump(), HasSubstr("1 lease handed on"));
  EXPECT_THAT(after["failures"].back()["what"], HasSubstr("it was started again"));
}

// The chief was killed between the job's end, as its disk has it, and the word of it.
TEST_F(ChiefRestartTest, MembersHearOfSuccessFromTheNextChiefToo) {
  TrainAndEvaluate();
  cluster->Wait(500ms);
  ASSERT_EQ(cluster->role->state(), JobState::kSucceeded);
  Restart();
  EXPECT_FALSE(cluster->exit().has_value());
  cluster->Say(cluster->ps[0].control, cluster->ps[0].join);
  cluster->Say(cluster->worker[0].control,
               Heartbeat{.from = cluster->worker[0].join.was, .stats = {}, .log_lines = {}});
  for (const FakeMember* member : {&cluster->ps[0], &cluster->worker[0]}) {
    ASSERT_THAT(cluster->Sent<JobEnd>(*member), SizeIs(1));
    EXPECT_TRUE(cluster->Sent<JobEnd>(*member)[0].succeeded);
    EXPECT_EQ(cluster->Sent<JobEnd>(*member)[0].why, "the job has succeeded");
  }
  cluster->Wait(4s);
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(cluster->exit()->code, 0);
  EXPECT_EQ(Summary()["samplesCommitted"], 24) << "as its predecessor wrote it";
}

// Whoever did not hear of the end, or waits for a chief, is for the one that is told to resume.
TEST_F(ChiefRestartTest, AChiefThatLacksResumeTellsNobodyThatTheJobIsOver) {
  cluster->Stop(15);
  cluster->Wait(1s);
  ASSERT_EQ(cluster->role->state(), JobState::kCancelled);
  Restart();
  ASSERT_TRUE(cluster->exit().has_value()) << "at once";
  EXPECT_EQ(cluster->exit()->code, 1);
  EXPECT_THAT(cluster->exit()->why, HasSubstr("add --resume"));
  cluster->Say(cluster->ps[0].control, cluster->ps[0].join);
  cluster->Say(cluster->worker[0].control,
               Heartbeat{.from = cluster->worker[0].join.was, .stats = {}, .log_lines = {}});
  for (const FakeMember* member : {&cluster->ps[0], &cluster->worker[0]}) {
    EXPECT_THAT(cluster->Sent<JobEnd>(*member), IsEmpty());
  }
}

// Whoever raised the epochs means to go on, and has only forgotten to say so: members wait for a chief that does.
TEST_F(ChiefRestartTest, AChangedJobDoesNotSpeakOfTheEndOfTheOneBefore) {
  TrainAndEvaluate();
  cluster->Wait(500ms);
  ASSERT_EQ(cluster->role->state(), JobState::kSucceeded);
  Restart(SmallJob({"training.epochs=7"}));
  cluster->Say(cluster->ps[0].control, cluster->ps[0].join);
  EXPECT_THAT(cluster->Sent<JobEnd>(cluster->ps[0]), IsEmpty());
  cluster->Wait(4s);
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(cluster->exit()->code, 1);
}

TEST_F(ChiefRestartTest, AnotherPlanInThisFolderIsRefused) {
  Restart(SmallJob({"training.batchSize=3"}));
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(cluster->exit()->code, 78);
  EXPECT_THAT(cluster->exit()->why, HasSubstr("not over"));
}

// Faults 16: what rests on the journal waits for it.
TEST_F(ChiefRestartTest, AFullDiskStopsGrantsUntilItIsFreed) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->Start();
  cluster->disk->fate = [](const StorageOp& op) {
    return op.path == "journal.a.tmp" && op.kind == StorageOp::Kind::kWrite
               ? absl::ResourceExhaustedError("no space left on device")
               : absl::OkStatus();
  };
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  cluster->ReportData(cluster->JoinWorker(0));
  cluster->Wait(2s);
  EXPECT_EQ(cluster->role->state(), JobState::kPreparing);
  EXPECT_THAT(cluster->Status()["waits"].dump(), HasSubstr("no space left on device"));
  EXPECT_THAT(cluster->Ask(cluster->worker[0], 1), IsEmpty());
  cluster->disk->fate = nullptr;
  cluster->Wait(2s);
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
  EXPECT_THAT(cluster->Ask(cluster->worker[0], 1), Not(IsEmpty()));
}

TEST_F(ChiefRestartTest, NobodyIsToldOfTheEndBeforeItIsOnDisk) {
  cluster->disk->fate = [this](const StorageOp& op) {
    cluster->disk_hangs = op.path == "journal.b" || op.target == "journal.b";
    return absl::OkStatus();
  };
  TrainAndEvaluate();
  cluster->Wait(500ms);
  ASSERT_EQ(cluster->role->state(), JobState::kSucceeded);
  EXPECT_THAT(cluster->Sent<JobEnd>(cluster->worker[0]), IsEmpty());
  cluster->disk->fate = nullptr;
  cluster->LetDiskGoOn();
  cluster->Wait(1s);
  EXPECT_THAT(cluster->Sent<JobEnd>(cluster->worker[0]), Not(IsEmpty()));
}

TEST_F(ChiefRestartTest, TheLastSummaryWaitsForTheFirstOneOnASlowDisk) {
  cluster->disk->fate = [this](const StorageOp& op) {
    cluster->disk_hangs |= op.kind == StorageOp::Kind::kRemove && op.path == "summary.json.tmp";
    return absl::OkStatus();
  };
  TrainAndEvaluate();
  cluster->Wait(2 * Shutdown::kGoodbye);
  ASSERT_EQ(cluster->HangingOn("summary.json.tmp"), 1) << "two at once would spoil each other";
  cluster->disk->fate = nullptr;
  cluster->LetDiskGoOn();
  cluster->Wait(2 * Shutdown::kGoodbye);
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(Summary()["state"], "SUCCEEDED");
}

}  // namespace
}  // namespace downpour
