// A job's checkpoints through Step alone: when rounds run, and what their failures cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/match.h"
#include "chief/checkpoint_rounds.h"
#include "chief/work.h"
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

// Newest first.
std::vector<Round> RoundsOn(const MemoryDisk& disk) {
  std::vector<Round> rounds;
  for (uint32_t term = 3; term > 0; --term) {
    for (uint32_t n = 200; n > 0; --n) {
      if (disk.Has(ManifestPath({term, n}))) rounds.push_back({term, n});
    }
  }
  return rounds;
}

TEST_F(ChiefRoleTest, CheckpointsAsOftenAsTheyAreCheapUnlessToldHowOften) {
  StartRunning({"checkpoint.every=auto", "checkpoint.keep=3"});
  EXPECT_EQ(cluster->Status()["checkpoint"]["intervalSeconds"], 1);
  cluster->Wait(30s);
  const std::vector<Round> rounds = RoundsOn(*cluster->disk);
  ASSERT_THAT(rounds, SizeIs(3));
  EXPECT_GE(rounds[0].n, 20u) << "rounds of no time are a second apart";
  EXPECT_EQ(rounds[1].n, rounds[0].n - 1);
  EXPECT_EQ(rounds[2].n, 1u) << "the oldest one stays until there is another a minute after it";
}

TEST_F(ChiefRoleTest, RoundsThatTakeLongAreFurtherApartAlsoUnderTheNextChief) {
  StartRunning({"checkpoint.every=auto"});
  for (int round = 0; round < 2; ++round) {
    cluster->ps[0].answers_snapshots = false;
    cluster->Wait(1s + (round == 0 ? 0s : 99s));
    cluster->ps[0].answers_snapshots = true;
    cluster->Wait(Timing{}.data_retry);
  }
  EXPECT_GT(cluster->Status()["checkpoint"]["intervalSeconds"], 60);
  EXPECT_THAT(cluster->Status()["checkpoint"]["intervalWhy"].get<std::string>(), HasSubstr("s of work"));
  const double before = cluster->Status()["checkpoint"]["intervalSeconds"];

  ChiefHarness next(SmallJob({"checkpoint.every=auto"}), /*resume=*/true, cluster->disk);
  next.Start();
  next.RunToRunning();
  EXPECT_NEAR(next.Status()["checkpoint"]["intervalSeconds"].get<double>(), before, before / 10);
}

TEST_F(ChiefRoleTest, ASlowDiskCostsTheChiefTimeAndWorkersNone) {
  StartRunning({"checkpoint.every=auto"});
  cluster->disk_hangs = true;
  cluster->Wait(5s);
  cluster->LetDiskGoOn();
  ASSERT_TRUE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
  EXPECT_LT(cluster->Status()["checkpoint"]["roundSeconds"], 0.1);
  EXPECT_EQ(cluster->Status()["checkpoint"]["intervalSeconds"], 1);
}

TEST_F(ChiefRoleTest, AJobGoesOnFromCheckpointsThatWereWrittenAsItsFileSaidThen) {
  StartRunning({"checkpoint.every=2s"});
  cluster->Wait(3s);
  ASSERT_TRUE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
  ChiefHarness next(SmallJob({"checkpoint.every=auto"}), /*resume=*/true, cluster->disk);
  next.Start();
  next.RunToRunning();
  EXPECT_EQ(next.role->state(), JobState::kRunning);
  next.Wait(2s);
  EXPECT_TRUE(next.disk->Has("checkpoints/2-1/MANIFEST"));
}

// Each chief dies sooner than a round is due.
TEST_F(ChiefRoleTest, ChiefsThatDieSoonerThanTheIntervalLeaveCheckpointsToo) {
  StartRunning({"checkpoint.every=5s"});
  cluster->Wait(3s);
  ASSERT_FALSE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
  ChiefHarness next(SmallJob({"checkpoint.every=5s"}), /*resume=*/false, cluster->disk);
  next.unix_ms = cluster->unix_ms + 3500;
  next.Start();
  next.RunToRunning();
  next.Wait(2s);
  EXPECT_TRUE(next.disk->Has("checkpoints/2-1/MANIFEST"));
}

// By its clock the last checkpoint, or the job's beginning, is an hour ahead.
TEST_F(ChiefRoleTest, AClockThatWentBackPutsOffNoRound) {
  StartRunning({"checkpoint.every=5s"});
  ChiefHarness next(SmallJob({"checkpoint.every=5s"}), /*resume=*/false, cluster->disk);
  next.unix_ms = cluster->unix_ms - 3'600'000;
  next.Start();
  next.RunToRunning();
  next.Wait(6s);
  EXPECT_TRUE(next.disk->Has("checkpoints/2-1/MANIFEST"));
}

// By its clock there was no checkpoint for years: that is no reason for one at once, where they are further apart.
TEST_F(ChiefRoleTest, AClockThatWentAheadHastensNoRoundBeyondADay) {
  StartRunning({"checkpoint.every=108000s"});
  ChiefHarness next(SmallJob({"checkpoint.every=108000s"}), /*resume=*/false, cluster->disk);
  next.unix_ms = cluster->unix_ms + int64_t{1000} * 86'400'000;
  next.Start();
  next.RunToRunning();
  next.Wait(6s);
  EXPECT_FALSE(next.disk->Has("checkpoints/2-1/MANIFEST"));
}

TEST_F(ChiefRoleTest, AJobThatIsResumedAnHourLaterHasWorkedForNoHour) {
  StartRunning({"checkpoint.every=5s"});
  cluster->Stop(15);
  cluster->Wait(1s);
  SayGoodbye();
  ASSERT_TRUE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
  ChiefHarness next(SmallJob({"checkpoint.every=5s"}), /*resume=*/true, cluster->disk);
  next.unix_ms = cluster->unix_ms + 3'600'000;
  next.Start();
  next.RunToRunning();
  next.Wait(4s);
  EXPECT_FALSE(next.disk->Has("checkpoints/2-1/MANIFEST"));
  next.Wait(2s);
  EXPECT_TRUE(next.disk->Has("checkpoints/2-1/MANIFEST"));
}

TEST_F(ChiefRoleTest, TheLogSaysNowAndThenThatACheckpointIsDurable) {
  StartRunning({"checkpoint.every=auto"});
  cluster->Forget();
  cluster->Wait(40s);
  int lines = 0;
  for (const Effect& effect : cluster->effects) {
    const auto* line = std::get_if<Log>(&effect);
    lines += line != nullptr && absl::StrContains(line->text, "is durable");
  }
  EXPECT_GE(lines, 3);
  EXPECT_LE(lines, 5);
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
    cluster->disk->fate = [&](const StorageOp& op) {
      const bool is_history = op.path == "metrics.jsonl" || op.path.starts_with("events.");
      return !is_history && ++op_number == failing ? absl::ResourceExhaustedError("no space left") : absl::OkStatus();
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

TEST_F(ChiefRoleTest, OneBatchThatASliceLacksIsOne) {
  StartRunning({"training.leaseBatches=1"});
  cluster->Say(cluster->worker[0].control,
               cluster->Evidence(cluster->worker[0], cluster->Ask(cluster->worker[0], 1)[0]));
  cluster->Wait(11s);
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("a slice lacks 1 batch, reported by a worker as done"));
}

// A worker that vouches for what it never pushed: the slices' records say otherwise, and they are right. However often
// it does so, checkpoints become durable.
TEST_F(ChiefRoleTest, ALeaseThatSlicesLackIsOpenAgain) {
  StartRunning();
  const LeaseId lease = cluster->Ask(cluster->worker[0], 1)[0];
  for (uint32_t n = 1; n < 4; ++n) {
    cluster->Say(cluster->worker[0].control, cluster->Evidence(cluster->worker[0], lease));
    ASSERT_TRUE(cluster->role->committed().Contains(ToNumber(lease)));
    cluster->Wait(11s);
    EXPECT_FALSE(cluster->role->committed().Contains(ToNumber(lease)));
    ASSERT_TRUE(cluster->disk->Has(ManifestPath({1, n}))) << n;
    EXPECT_TRUE(DecodeManifest(cluster->disk->At(ManifestPath({1, n})))->committed.empty());
  }
  EXPECT_EQ(cluster->Status()["recovery"]["batchesRecomputed"], 0) << "nobody computed them before";
  EXPECT_THAT(cluster->Status()["failures"].dump(),
              HasSubstr("a slice lacks 2 batches, reported by a worker as done: open again"));
  TrainAndEvaluate();
  cluster->Wait(10s);
  EXPECT_EQ(cluster->role->state(), JobState::kSucceeded);
}

// With sync nothing goes on without it, so the chief asks the slices, although no checkpoint is due.
TEST_F(ChiefRoleTest, LeasesGivenBackAgainAndAgainHaveSlicesAsked) {
  StartRunning({"training.leaseBatches=", "training.consistency=sync", "training.groupSize=1", "checkpoint.every=0s"});
  FakeMember& worker = cluster->worker[0];
  const LeaseId lease = cluster->Ask(worker, 1)[0];
  cluster->Say(worker.control, cluster->Evidence(worker, lease));
  ASSERT_TRUE(cluster->role->committed().Contains(ToNumber(lease)));
  // Its slices refuse the next one as too early, each time that it is granted.
  for (size_t i = 0; i < Work::kSuspect; ++i) {
    cluster->Ask(worker, 1);
    ASSERT_TRUE(cluster->role->committed().Contains(ToNumber(lease))) << i;
  }
  cluster->Ask(worker, 1);
  cluster->Wait(1s);
  EXPECT_FALSE(cluster->role->committed().Contains(ToNumber(lease)));
}

// A worker that vouches for one lease after the other meanwhile, to the end.
TEST_F(ChiefRoleTest, FalseReportsDoNotPutOffThatSlicesAreAsked) {
  StartRunning({"training.leaseBatches=", "training.consistency=sync", "training.groupSize=1", "checkpoint.every=0s"});
  FakeMember& liar = cluster->worker[1];
  cluster->Say(liar.control, cluster->Evidence(liar, LeaseId{0}));
  for (uint64_t lease = cluster->role->goal() - 1; cluster->role->committed().Contains(0); --lease) {
    ASSERT_GT(lease, 1u);
    cluster->Say(liar.control, cluster->Evidence(liar, LeaseId{lease}));
    for (size_t i = 0; i < Work::kSuspect / 2; ++i) cluster->Ask(cluster->worker[0], 1);
    cluster->Wait(1s);
  }
  EXPECT_TRUE(cluster->role->committed().empty());
}

}  // namespace
}  // namespace downpour
