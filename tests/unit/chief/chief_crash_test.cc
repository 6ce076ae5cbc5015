// Every operation of the chief's disk, one after the other: the chief is killed at it, or it fails. Whatever was under
// way then, of a checkpoint's commit, the journal or the term, the job ends with each sample committed once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chief/folder/journal.h"
#include "chief/folder/sealed_copies.h"
#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

class ChiefCrashTest : public ChiefRoleTest {
 protected:
  ChiefCrashTest() { Begin(std::make_shared<MemoryDisk>()); }

  void Begin(std::shared_ptr<MemoryDisk> disk) {
    cluster = std::make_unique<ChiefHarness>(SmallJob({"checkpoint.best=loss"}), false, disk);
  }

  // As far as it gets: an epoch and its evaluation with a checkpoint, the others, the last evaluation, which is better,
  // and the last checkpoint, the goodbyes.
  void Drive() {
    cluster->Start();
    for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
    cluster->ReportData(cluster->JoinWorker(0));
    cluster->Wait(1s);
    FakeMember& worker = cluster->worker[0];
    for (const uint32_t leases : {2, 1}) {
      for (const LeaseId lease : cluster->Ask(worker, leases)) cluster->Finish(worker, lease);
    }
    // Of a chief that takes over it may be the last one already.
    cluster->evaluated_loss = cluster->role->committed().Count() == 6 ? 0.25 : 0.5;
    cluster->Ask(worker, 1);
    cluster->Wait(100ms);
    cluster->Evaluate(worker);
    cluster->Wait(11s);
    cluster->evaluated_loss = 0.25;
    TrainAndEvaluate();
    cluster->Wait(12s);
    if (cluster->role->state() == JobState::kSucceeded) SayGoodbye();
    cluster->Wait(4s);
  }
  // Another chief in the folder; the servers kept what they held, or are new.
  void Restart(bool servers_live) {
    std::unique_ptr<ChiefHarness> before = std::move(cluster);
    before->disk->fate = nullptr;
    Begin(before->disk);
    cluster->now = before->now;
    for (int i = 0; i < 2; ++i) {
      cluster->ps[i].join.run = 7;
      cluster->ps[i].join.was = servers_live ? before->ps[i].id : Incarnation::kNone;
      if (servers_live) cluster->ps[i].slices = before->ps[i].slices;
    }
  }
  void ExpectWholeJob(const std::string& where) {
    ASSERT_TRUE(cluster->exit().has_value()) << where << ": " << cluster->Status();
    EXPECT_EQ(cluster->exit()->code, 0) << where << ": " << cluster->exit()->why;
    EXPECT_EQ(Summary()["state"], "SUCCEEDED") << where;
    EXPECT_EQ(Summary()["samplesCommitted"], 24) << where;
    ExpectWholeCheckpoint(where);
    if (cluster->role->term() != 0) return;
    // It found that the job was over: whoever had not heard of it has now.
    EXPECT_THAT(cluster->Sent<Welcome>(cluster->worker[0]), IsEmpty()) << where;
    ASSERT_THAT(cluster->Sent<JobEnd>(cluster->worker[0]), Not(IsEmpty())) << where;
    EXPECT_TRUE(cluster->Sent<JobEnd>(cluster->worker[0])[0].succeeded) << where;
  }
  void ExpectWholeCheckpoint(const std::string& where) {
    const std::string path = Summary()["checkpoint"].get<std::string>() + "/MANIFEST";
    ASSERT_TRUE(cluster->disk->Has(path)) << where;
    const absl::StatusOr<Manifest> manifest = DecodeManifest(cluster->disk->At(path));
    ASSERT_TRUE(manifest.ok()) << where << ": " << manifest.status();
    EXPECT_TRUE(manifest->committed.CoversRange(0, 6)) << where;
  }
  // What the journal names as the best is there whenever it can be read, also of a chief that was just killed.
  void ExpectBest(const MemoryDisk& disk, const std::string& where) {
    JournalEntry newest;
    for (const char* copy : {"journal.a", "journal.b"}) {
      const absl::StatusOr<std::string> text = Unsealed(disk.Has(copy) ? disk.Read(copy) : "");
      const absl::StatusOr<JournalEntry> entry = text.ok() ? DecodeEntry(*text) : text.status();
      if (entry.ok() && entry->number > newest.number) newest = *entry;
    }
    const Round best = newest.record.best.round;
    if (best == Round()) return;
    EXPECT_TRUE(disk.Has(ManifestPath(best))) << where << ": the best, " << ToString(best);
    named_best_ = true;
  }
  bool named_best_ = false;
  void TryCrash(int survived, bool servers_live, bool* crashed) {
    int ops = 0;
    *crashed = false;
    cluster->disk->fate = [&](const StorageOp&) {
      *crashed |= cluster->disk_hangs = ops++ >= survived;  // this one is done, and nothing after it
      return absl::OkStatus();
    };
    Drive();
    if (!*crashed) return;
    const std::string where = "killed after operation " + std::to_string(survived);
    ExpectBest(*cluster->disk, where);
    Restart(servers_live);
    Drive();
    ExpectWholeJob(where);
    ExpectBest(*cluster->disk, where + ", at the end");
    EXPECT_EQ(Summary()["bestCheckpoint"]["value"], 0.25) << where << ": the better of two";
  }
};

TEST_F(ChiefCrashTest, AChiefThatIsKilledAtAnyOperationLosesNothing) {
  for (const bool servers_live : {true, false}) {
    bool crashed = true;
    int survived = 0;
    for (; crashed; ++survived) {
      Begin(std::make_shared<MemoryDisk>());
      TryCrash(survived, servers_live, &crashed);
    }
    EXPECT_GT(survived, 60) << "start, three checkpoints, the end";
    EXPECT_TRUE(named_best_);
  }
}

TEST_F(ChiefCrashTest, AnOperationThatFailsCostsAtMostItsCheckpointOrTheStart) {
  for (const absl::Status& failure :
       {absl::ResourceExhaustedError("no space left on device"), absl::UnknownError("input/output error")}) {
    bool failed = true;
    for (int failing = 0; failed; ++failing) {
      Begin(std::make_shared<MemoryDisk>());
      int ops = 0;
      failed = false;
      cluster->disk->fate = [&](const StorageOp&) {
        const bool now = ops++ == failing;
        failed |= now;
        return now ? failure : absl::OkStatus();
      };
      Drive();
      if (cluster->exit().has_value() && cluster->exit()->code == 1) {  // before anybody could join
        ASSERT_EQ(cluster->role->term(), 0u) << failing << ": " << cluster->exit()->why;
        Restart(/*servers_live=*/false);
        Drive();
      }
      ExpectWholeJob("operation " + std::to_string(failing) + " failed: " + std::string(failure.message()));
    }
  }
}

}  // namespace
}  // namespace downpour
