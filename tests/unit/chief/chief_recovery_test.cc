// A ps that is gone: who waits, who comes in its place, what its slices get and what is computed again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chief/recovery.h"
#include "tests/unit/chief/chief_recovery_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(ChiefRecoveryTest, ASilentPsIsWaitedForAndGoesOnWhereItWas) {
  RunAhead();
  const std::vector<SliceEpoch> epochs = cluster->role->epochs();
  cluster->ps[1].alive = false;
  cluster->Wait(8s);
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
  EXPECT_EQ(cluster->TaskStatus("ps-1")["state"], "LOST");
  EXPECT_THAT(cluster->Status()["waits"].dump(), HasSubstr("is gone, with 1 slice"));
  EXPECT_THAT(cluster->Status()["pending"].dump(), HasSubstr("ps-1"));
  cluster->ps[1].alive = true;
  cluster->Wait(1s);
  EXPECT_EQ(cluster->TaskStatus("ps-1")["state"], "RUNNING");
  EXPECT_EQ(cluster->role->epochs(), epochs) << "nobody else had its slices meanwhile";
  EXPECT_EQ(cluster->role->committed().Count(), 4u);
  EXPECT_EQ(cluster->Status()["recovery"]["psLost"], 0);
}

TEST_F(ChiefRecoveryTest, AnotherProcessGetsTheSlicesFromTheNewestCheckpointInNewEpochs) {
  RunAhead();
  Die(1);
  cluster->Wait(6s);
  Restart(1);
  cluster->Wait(1s);
  EXPECT_EQ(cluster->role->epochs(), (std::vector<SliceEpoch>{{1, 1}, {1, 2}}));
  EXPECT_EQ(cluster->ps[1].slices.at(SliceId{1}).finished.Count(), 2u);
  EXPECT_EQ(cluster->role->committed().Count(), 2u) << "what the slice reports, not what the ledger remembers";
  const nlohmann::json recovery = cluster->Status()["recovery"];
  EXPECT_EQ(recovery["psLost"], 1);
  EXPECT_EQ(recovery["batchesRecomputed"], 4) << "two leases of two batches";
  ASSERT_THAT(cluster->Sent<Placement>(*worker), Not(IsEmpty()));
  EXPECT_EQ(cluster->Sent<Placement>(*worker).back().servers[1].incarnation, cluster->ps[1].id);
  EXPECT_EQ(ToNumber(cluster->Ask(*worker, 1).at(0)), 2u) << "the lowest that is open again";
}

TEST_F(ChiefRecoveryTest, ASupervisorsNextAttemptIsKnownToReplaceTheDeadAtOnce) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  Supervised();
  cluster->Start();
  cluster->RunToRunning();
  worker = &cluster->worker[0];
  Commit(1);
  Restart(0);
  EXPECT_EQ(cluster->role->epochs()[0], (SliceEpoch{1, 2}));
  EXPECT_EQ(cluster->role->committed().Count(), 0u) << "no checkpoint yet: initial values";
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("it was started again"));
}

TEST_F(ChiefRecoveryTest, ASecondProcessOfALivingPsIsOnlyRefused) {
  StartRunning();
  Join second = cluster->ps[0].join;
  second.nonce = 4242;
  cluster->Say(PeerId{uint64_t{1} << 40}, second);
  EXPECT_THAT(cluster->Sent<Refused>(PeerId{uint64_t{1} << 40}), SizeIs(1));
  EXPECT_EQ(cluster->role->epochs()[0], (SliceEpoch{1, 1}));
}

// Evidence of before the loss says nothing about the slice's new life (protocol rule A2).
TEST_F(ChiefRecoveryTest, EvidenceOfTheOldEpochCommitsNothing) {
  RunAhead();
  const LeaseId lease = cluster->Ask(*worker, 1).at(0);
  cluster->Apply(lease);
  const LeaseDone late = cluster->Evidence(*worker, lease);
  Die(1);
  cluster->Wait(6s);
  cluster->ps[1].answers_assign = false;
  Restart(1);
  cluster->Forget();
  cluster->Say(worker->control, late);
  EXPECT_THAT(cluster->Sent<LeaseDoneReply>(*worker), IsEmpty()) << "nobody knows yet what the slice holds";
  cluster->ps[1].answers_assign = true;
  cluster->Wait(1s);
  cluster->Say(worker->control, late);
  ASSERT_THAT(cluster->Sent<LeaseDoneReply>(*worker), SizeIs(1));
  EXPECT_FALSE(cluster->Sent<LeaseDoneReply>(*worker)[0].committed);
}

TEST_F(ChiefRecoveryTest, APsThatDiesWhileItIsRestoredIsReplacedAsWell) {
  RunAhead();
  Die(1);
  cluster->Wait(6s);
  cluster->ps[1].answers_assign = false;
  Restart(1);
  cluster->Wait(2s);
  Die(1);
  cluster->Wait(6s);
  cluster->ps[1].answers_assign = true;
  Restart(1);
  cluster->Wait(1s);
  EXPECT_EQ(cluster->role->epochs()[1], (SliceEpoch{1, 3}));
  EXPECT_EQ(cluster->role->committed().Count(), 2u);
  EXPECT_EQ(cluster->Status()["recovery"]["psLost"], 2);
}

TEST_F(ChiefRecoveryTest, ADamagedRecordCostsTheSliceAnOlderState) {
  RunAhead();
  cluster->Wait(10s);
  ASSERT_EQ(cluster->Status()["checkpoint"]["leasesCommitted"], 4);
  RestartOnDamagedRecord("1-2");
  EXPECT_EQ(cluster->role->committed().Count(), 2u);
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("slice 1 restarts from checkpoint 1-1"));
}

TEST_F(ChiefRecoveryTest, ASliceWithoutAnyWholeRecordEndsTheJobInsteadOfItsTraining) {
  RunAhead();
  RestartOnDamagedRecord("1-1");
  EXPECT_EQ(cluster->role->state(), JobState::kFailed);
  EXPECT_THAT(cluster->ps[1].slices, IsEmpty());
  EXPECT_THAT(cluster->Status()["errorMessage"],
              HasSubstr("no checkpoint's record of slice 1 can be used: checkpoints/1-1/ps-1.shard"));
}

// It held good once, so what the chief remembers of earlier replacements says nothing about the disk now.
TEST_F(ChiefRecoveryTest, CheckpointsThatVanishAfterOneReplacementAreWaitedForToo) {
  RunAhead();
  Die(1);
  cluster->Wait(6s);
  Restart(1);
  cluster->Wait(1s);
  Commit(1);
  cluster->Wait(11s);
  ASSERT_EQ(cluster->Status()["checkpoint"]["leasesCommitted"], 3);
  cluster->disk->Carry(Remove("checkpoints"));
  Die(1);
  cluster->Wait(6s);
  Restart(1);
  cluster->Wait(6s);
  EXPECT_THAT(cluster->ps[1].slices, IsEmpty());
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("slices wait for checkpoints: checkpoints/1-"));
}

TEST_F(ChiefRecoveryTest, TheJobEndsWithAllItsSamplesThoughAPsDiedAtTheEnd) {
  StartRunning();
  worker = &cluster->worker[0];
  cluster->ps[0].answers_snapshots = false;
  TrainAndEvaluate();
  Die(0);
  cluster->Wait(6s);
  ASSERT_EQ(cluster->role->state(), JobState::kRunning) << "no checkpoint holds all leases yet";
  cluster->ps[0].answers_snapshots = true;
  Restart(0);
  cluster->Wait(1s);
  EXPECT_EQ(cluster->role->committed().Count(), 0u);
  TrainAndEvaluate();
  cluster->Wait(6s);
  EXPECT_EQ(cluster->role->state(), JobState::kSucceeded);
  SayGoodbye();
  EXPECT_EQ(Summary()["samplesCommitted"], 24);
  EXPECT_EQ(Summary()["psLost"], 1);
  EXPECT_EQ(Summary()["batchesRecomputed"], 12);
}

TEST_F(ChiefRecoveryTest, APsThatNobodyReplacesFailsTheJobWithOneSentence) {
  RunAhead();
  Die(1);
  cluster->Wait(JobSpec().timing.server_wait + 1s);
  EXPECT_EQ(cluster->role->state(), JobState::kFailed);
  const std::string error = cluster->Status()["errorMessage"];
  EXPECT_THAT(error, HasSubstr("ps-1 (host h1, process"));
  EXPECT_THAT(error, HasSubstr("no heartbeat for 5.0 s"));
  EXPECT_THAT(error, HasSubstr("checkpoints/1-1 with 2 leases"));
  EXPECT_THAT(error, HasSubstr("--resume"));
  ASSERT_THAT(cluster->Sent<JobEnd>(*worker), Not(IsEmpty()));
  EXPECT_FALSE(cluster->Sent<JobEnd>(*worker)[0].succeeded);
  SayGoodbye();
  EXPECT_EQ(cluster->exit()->code, 1);
  EXPECT_EQ(Summary()["state"], "FAILED");
}

TEST_F(ChiefRecoveryTest, OneThatLeavesBeforeItHasTheSlicesIsNotWaitedForLonger) {
  RunAhead();
  Die(1);
  HideCheckpoints();
  cluster->Wait(6s);
  Restart(1);
  Die(1);
  cluster->Say(cluster->ps[1].control, Leave{cluster->ps[1].id, "it has no folder"});
  cluster->Wait(1s);
  EXPECT_THAT(cluster->Status()["waits"].dump(), HasSubstr("is gone, with 1 slice"));
  cluster->Wait(JobSpec().timing.server_wait + 1s);
  EXPECT_EQ(cluster->role->state(), JobState::kFailed);
}

TEST_F(ChiefRecoveryTest, ProcessesThatDieOneAfterTheOtherFailTheJobUnlessLeasesAreCommitted) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  Supervised();
  cluster->Start();
  cluster->RunToRunning();
  worker = &cluster->worker[0];
  for (int loss = 1; loss < Recovery::kMostLosses; ++loss) Restart(0);
  Commit(1);
  for (int loss = 1; loss < Recovery::kMostLosses; ++loss) Restart(0);
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
  Restart(0);
  EXPECT_EQ(cluster->role->state(), JobState::kFailed);
  EXPECT_THAT(cluster->Status()["errorMessage"], HasSubstr("6 processes in a row ended as ps-0"));
}

TEST_F(ChiefRecoveryTest, CheckpointsThatCannotBeReadAreWaitedFor) {
  RunAhead();
  Die(1);
  HideCheckpoints();
  cluster->Wait(6s);
  Restart(1);
  cluster->Wait(1s);
  EXPECT_THAT(cluster->ps[1].slices, IsEmpty());
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("permission denied"));
  cluster->disk->fate = nullptr;
  cluster->Wait(6s);
  EXPECT_EQ(cluster->role->committed().Count(), 2u);
}

TEST_F(ChiefRecoveryTest, CheckpointsThatStayOutOfReachEndTheJobByName) {
  RunAhead();
  Die(1);
  HideCheckpoints();
  cluster->Wait(6s);
  Restart(1);
  cluster->Wait(JobSpec().timing.server_wait - 10s);
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
  cluster->Wait(20s);
  EXPECT_EQ(cluster->role->state(), JobState::kFailed);
  EXPECT_THAT(cluster->Status()["errorMessage"], HasSubstr("no checkpoint can be used for 600 s: "));
  EXPECT_THAT(cluster->Status()["errorMessage"], HasSubstr("permission denied"));
}

TEST_F(ChiefRecoveryTest, TheTimeInWhichCheckpointsMayComeBackBeginsAnewWithEachWait) {
  RunAhead();
  HideCheckpoints();
  for (int i = 0; i < 3; ++i) {
    Die(1);
    cluster->Wait(6s);
    Restart(1);
    cluster->Wait(JobSpec().timing.server_wait / 2);
    ASSERT_EQ(cluster->role->state(), JobState::kRunning);
  }
}

// Initial values would do for "exactly once", but all that was trained would be computed again, and nobody told.
TEST_F(ChiefRecoveryTest, InitialValuesAreNoSubstituteForAKnownCheckpointWhoseManifestIsDamagedOrGone) {
  for (const bool is_gone : {false, true}) {
    RunAhead();
    Die(1);
    cluster->Wait(6s);
    const std::string manifest = cluster->disk->At("checkpoints/1-1/MANIFEST");
    cluster->disk->At("checkpoints/1-1/MANIFEST")[3] ^= 1;
    if (is_gone) cluster->disk->Carry(Remove("checkpoints/1-1/MANIFEST"));
    Restart(1);
    cluster->Wait(6s);
    EXPECT_THAT(cluster->ps[1].slices, IsEmpty());
    EXPECT_THAT(cluster->Status()["failures"].dump(),
                HasSubstr("slices wait for checkpoints: checkpoints/1-1/MANIFEST"));
    EXPECT_EQ(cluster->role->state(), JobState::kRunning);
    if (is_gone) {
      cluster->Wait(JobSpec().timing.server_wait);
      EXPECT_EQ(cluster->role->state(), JobState::kFailed);
      EXPECT_THAT(cluster->Status()["errorMessage"], HasSubstr("checkpoints/1-1/MANIFEST"));
    } else {
      cluster->disk->At("checkpoints/1-1/MANIFEST") = manifest;
      cluster->Wait(6s);
      EXPECT_EQ(cluster->role->committed().Count(), 2u) << "what the checkpoint has";
    }
  }
}

}  // namespace
}  // namespace downpour
