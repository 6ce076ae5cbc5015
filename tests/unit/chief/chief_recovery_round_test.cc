// A ps that is gone, and the checkpoint rounds around its loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chief/recovery.h"
#include "tests/unit/chief/chief_recovery_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;

TEST_F(ChiefRecoveryTest, NoRoundSpansALoss) {
  RunAhead();
  cluster->ps[0].answers_snapshots = false;
  cluster->Wait(10s);
  ASSERT_THAT(cluster->Status()["checkpoint"]["writing"], HasSubstr("1-2"));
  Die(1);
  cluster->Wait(6s);
  EXPECT_EQ(cluster->Status()["checkpoint"]["writing"], "");
  EXPECT_THAT(cluster->Status()["checkpoint"]["lastError"], HasSubstr("a ps is gone"));
  cluster->Wait(20s);
  EXPECT_EQ(cluster->Status()["checkpoint"]["writing"], "") << "no round begins without it";
  EXPECT_EQ(cluster->Status()["checkpoint"]["round"], "1-1");
}

// Were each of them taken for a round that cannot succeed, the next one would be a minute away.
TEST_F(ChiefRecoveryTest, RoundsThatALostPsEndedPutOffNone) {
  StartRunning({"checkpoint.every=auto"});
  for (int loss = 1; loss < Recovery::kMostLosses; ++loss) {
    cluster->ps[0].answers_snapshots = false;
    cluster->Wait(2s);
    ASSERT_NE(cluster->Status()["checkpoint"]["writing"], "") << loss;
    Die(1);
    cluster->Wait(6s);
    ASSERT_THAT(cluster->Status()["checkpoint"]["lastError"], HasSubstr("a ps is gone"));
    Restart(1);
    cluster->Wait(1s);
  }
}

// Read before its name is there, it would be taken for the rest of a round that was given up, and removed.
TEST_F(ChiefRecoveryTest, AManifestBeingWrittenIsTheCheckpointThatAReplacementGets) {
  RunAhead();
  cluster->disk->fate = [this](const StorageOp& op) {
    cluster->disk_hangs |= op.kind == StorageOp::Kind::kWrite && op.path == "checkpoints/1-2/MANIFEST.tmp";
    return absl::OkStatus();
  };
  cluster->Wait(10s);
  ASSERT_TRUE(cluster->disk_hangs);
  Die(1);
  cluster->Wait(6s);
  cluster->disk_hangs = false;  // but for what already waits for it
  Restart(1);
  cluster->Wait(1s);
  cluster->LetDiskGoOn();
  cluster->Wait(1s);
  EXPECT_EQ(cluster->ps[1].slices.at(SliceId{1}).finished.Count(), 4u);
  EXPECT_TRUE(cluster->disk->Has("checkpoints/1-2/MANIFEST"));
}

TEST_F(ChiefRecoveryTest, ARoundWhoseRecordWasDamagedDoesNotEndTheJob) {
  RunAhead();
  EndOnDamagedRecord();
  EXPECT_EQ(cluster->Status()["checkpoint"]["round"], "1-4") << "no record of 1-2 has what was computed again";
}

// Where no round begins before all is committed again, the one of before holds all leases, by a record that is damaged.
TEST_F(ChiefRecoveryTest, ARoundOfBeforeLeasesWereOpenedAgainDoesNotEndTheJob) {
  StartRunning({"checkpoint.every=100s"});
  worker = &cluster->worker[0];
  Commit(2);
  cluster->Wait(101s);
  EndOnDamagedRecord();
  EXPECT_EQ(cluster->Status()["checkpoint"]["round"], "1-3");
}

}  // namespace
}  // namespace downpour
