// A job's checkpoints through Step alone: when rounds run, and what their failures cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "chief/checkpoint_round.h"
#include "schema/checkpoint_format.h"
#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(ChiefRoleTest, CheckpointsWhileItRuns) {
  StartRunning();
  cluster->Finish(cluster->worker[0], cluster->Ask(cluster->worker[0], 1)[0]);
  cluster->Wait(8s);
  EXPECT_FALSE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
  cluster->Wait(2s);
  const absl::StatusOr<Manifest> manifest = DecodeManifest(cluster->disk->At("checkpoints/1-1/MANIFEST"));
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->committed, cluster->role->committed());
  cluster->Wait(31s);
  EXPECT_FALSE(cluster->disk->Has("checkpoints/1-1/MANIFEST")) << "two are kept";
  EXPECT_TRUE(cluster->disk->Has("checkpoints/1-4/MANIFEST"));
  EXPECT_EQ(cluster->Status()["checkpoint"]["round"], "1-4");
}

TEST_F(ChiefRoleTest, OfManySlicesFewRecordsAreUnderWay) {
  StartRunning(
      {"model.layers=[{dense: {units: 3}}, {dense: {units: 3}}, {dense: {units: 3}}, {dense: {units: 3}}, "
       "{dense: {units: 3}}, {dense: {units: 3}}, {dense: {units: 3}}, {dense: {units: 3}}]"});
  cluster->Forget();
  cluster->Wait(10s);
  std::set<SliceId> asked;
  for (const FakeMember& server : cluster->ps) {
    for (const SnapshotRequest& request : cluster->Sent<SnapshotRequest>(server.bulk)) {
      EXPECT_LE(request.slices.size(), CheckpointRounds::kRecordsInFlight);
      for (const SnapshotRequest::Item& item : request.slices) asked.insert(item.slice);
    }
  }
  EXPECT_THAT(asked, SizeIs(16));
  EXPECT_TRUE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
}

TEST_F(ChiefRoleTest, ANewBulkLinkIsAskedAtOnceForWhatTheLastOneLost) {
  StartRunning();
  FakeMember& server = cluster->ps[0];
  server.answers_snapshots = false;
  cluster->Wait(10s + 2 * Timing{}.data_retry);
  server.bulk = PeerId{static_cast<uint64_t>(PeerId::kFirstAccepted) + 500};
  server.answers_snapshots = true;
  cluster->Wait(1s);
  EXPECT_TRUE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
}

TEST_F(ChiefRoleTest, AWriteThatFailsAnywhereLeavesTheOldCheckpointAndTheJobGoesOn) {
  StartRunning();
  cluster->Wait(11s);
  const std::string old_manifest = cluster->disk->At("checkpoints/1-1/MANIFEST");
  int abandoned = 0;
  for (int failing = 1; failing <= 17; ++failing) {
    int op_number = 0;
    cluster->disk->fate = [&](const StorageOp&) {
      return ++op_number == failing ? absl::ResourceExhaustedError("no space left") : absl::OkStatus();
    };
    cluster->Wait(10s);
    EXPECT_EQ(cluster->role->state(), JobState::kRunning);
    const nlohmann::json checkpoint = cluster->Status()["checkpoint"];
    if (checkpoint["lastError"] == "") break;
    ++abandoned;
    EXPECT_THAT(checkpoint["lastError"], HasSubstr("no space left"));
    EXPECT_EQ(checkpoint["round"], "1-1");
    EXPECT_EQ(cluster->disk->At("checkpoints/1-1/MANIFEST"), old_manifest);
  }
  EXPECT_GT(abandoned, 10);
  cluster->disk->fate = nullptr;
  cluster->Wait(21s);
  EXPECT_EQ(cluster->Status()["checkpoint"]["lastError"], "");
  EXPECT_NE(cluster->Status()["checkpoint"]["round"], "1-1");
}

// Protocol hole A12: workers may leave only when a durable checkpoint holds every lease.
TEST_F(ChiefRoleTest, TheJobIsDoneWhenACheckpointHoldsEveryLease) {
  StartRunning();
  cluster->disk->fate = [](const StorageOp& op) {
    return op.kind == StorageOp::Kind::kRename ? absl::DataLossError("input/output error") : absl::OkStatus();
  };
  TrainAndEvaluate();
  cluster->Wait(30s);
  EXPECT_EQ(cluster->role->committed().Count(), 6u);
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
  EXPECT_THAT(cluster->Sent<JobEnd>(cluster->worker[0]), IsEmpty());
  EXPECT_THAT(cluster->Status()["checkpoint"]["lastError"], HasSubstr("input/output error"));
  cluster->disk->fate = nullptr;
  cluster->Wait(6s);
  EXPECT_EQ(cluster->role->state(), JobState::kSucceeded);
}

// What the newest request for records says.
bool AsksUrgently(ChiefHarness& cluster) {
  const std::vector<SnapshotRequest> requests = cluster.Sent<SnapshotRequest>(cluster.ps[0].bulk);
  return !requests.empty() && requests.back().urgent;
}

TEST_F(ChiefRoleTest, TheRoundThatEndsAJobIsUrgentAndNoOther) {
  StartRunning();
  cluster->Wait(11s);
  ASSERT_TRUE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
  EXPECT_FALSE(AsksUrgently(*cluster));
  TrainAndEvaluate();
  cluster->Wait(1s);
  EXPECT_TRUE(AsksUrgently(*cluster));
}

// A ps that workers keep busy may take longer for one round than there is time for both.
TEST_F(ChiefRoleTest, TheLastRoundOfACancelledJobWaitsForNoOther) {
  StartRunning();
  cluster->ps[0].answers_snapshots = false;
  cluster->Wait(10s);
  ASSERT_FALSE(AsksUrgently(*cluster));
  cluster->Forget();
  cluster->ps[0].answers_snapshots = true;
  cluster->Stop(15);
  EXPECT_TRUE(AsksUrgently(*cluster));
  cluster->Wait(1s);
  EXPECT_EQ(cluster->role->state(), JobState::kCancelled);
  EXPECT_TRUE(cluster->disk->Has("checkpoints/1-2/MANIFEST"));
  EXPECT_FALSE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
}

TEST_F(ChiefRoleTest, AnOlderDurableCheckpointDoesNotEndTheJob) {
  StartRunning();
  const std::vector<LeaseId> leases = cluster->Ask(cluster->worker[0], 6);
  ASSERT_THAT(leases, SizeIs(6));
  for (size_t i = 0; i < 5; ++i) cluster->Finish(cluster->worker[0], leases[i]);
  cluster->Wait(11s);
  ASSERT_TRUE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
  cluster->ps[0].answers_snapshots = false;
  cluster->Finish(cluster->worker[0], leases[5]);
  cluster->Ask(cluster->worker[0], 2);
  cluster->Evaluate(cluster->worker[0]);
  cluster->Wait(1s);
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
  cluster->ps[0].answers_snapshots = true;
  cluster->Wait(Timing{}.data_retry);
  EXPECT_EQ(cluster->role->state(), JobState::kSucceeded);
}

// A worker that vouches for what it never pushed: the slices' records say otherwise, and they are right.
TEST_F(ChiefRoleTest, ALeaseThatSlicesLackIsOpenAgain) {
  StartRunning();
  const LeaseId lease = cluster->Ask(cluster->worker[0], 1)[0];
  cluster->Say(cluster->worker[0].control, cluster->Evidence(cluster->worker[0], lease));
  ASSERT_TRUE(cluster->role->committed().Contains(ToNumber(lease)));
  cluster->Wait(11s);
  EXPECT_FALSE(cluster->role->committed().Contains(ToNumber(lease)));
  EXPECT_FALSE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
  TrainAndEvaluate();
  cluster->Wait(10s);
  EXPECT_EQ(cluster->role->state(), JobState::kSucceeded);
}

}  // namespace
}  // namespace downpour
