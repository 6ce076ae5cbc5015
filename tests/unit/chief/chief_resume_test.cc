// A job that goes on from its checkpoints, through Step alone: what is on disk is read, what slices report decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <variant>

#include "absl/strings/match.h"
#include "chief/folder/checkpoint_store.h"
#include "chief/lifecycle.h"
#include "chief/shutdown.h"
#include "runtime/prng.h"
#include "tests/unit/chief/chief_harness.h"

namespace downpour {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// A first chief commits leases 0 and 1, checkpoints (1-1), commits 2 and 3, checkpoints again (1-2), and is gone.
class ChiefResumeTest : public ::testing::Test {
 protected:
  ChiefResumeTest() {
    ChiefHarness first(SmallJob(), false, disk);
    first.Start();
    first.RunToRunning();
    for (const LeaseId lease : first.Ask(first.worker[0], 2)) first.Finish(first.worker[0], lease);
    first.Wait(10s);
    for (const LeaseId lease : first.Ask(first.worker[0], 2)) first.Finish(first.worker[0], lease);
    first.Wait(10s);
    EXPECT_TRUE(disk->Has(ManifestPath({1, 1})) && disk->Has(ManifestPath({1, 2})));
  }
  void Resume(const std::vector<std::string>& overrides = {}, Round give_up = {}) {
    cluster = std::make_unique<ChiefHarness>(SmallJob(overrides), true, disk, give_up);
    cluster->Start();
  }
  static IntervalSet SetOf(uint64_t begin, uint64_t end) {
    IntervalSet set;
    set.InsertRange(begin, end);
    return set;
  }
  void Finish() {
    cluster->FinishAll(cluster->worker[0]);
    cluster->Ask(cluster->worker[0], 2);
    cluster->Evaluate(cluster->worker[0]);
    EXPECT_EQ(cluster->role->state(), JobState::kSucceeded);
  }
  std::shared_ptr<MemoryDisk> disk = std::make_shared<MemoryDisk>();
  std::unique_ptr<ChiefHarness> cluster;
};

TEST_F(ChiefResumeTest, WhatItChangesIsTold) {
  Resume({"training.optimizer.learningRate=0.05", "training.epochs=3"});
  const std::vector<std::string> changes = {"training.epochs 2 -> 3", "training.optimizer.learningRate 0.1 -> 0.05"};
  EXPECT_EQ(cluster->Status()["changes"], changes);
  for (const std::string& change : changes) {
    EXPECT_TRUE(std::ranges::any_of(cluster->effects, [&](const Effect& effect) {
      const auto* log = std::get_if<Log>(&effect);
      return log != nullptr && log->text == "changed since the job was last led: " + change;
    })) << change;
  }
  Resume({"training.optimizer.learningRate=0.05", "training.epochs=3"});
  EXPECT_TRUE(cluster->Status()["changes"].empty());
  // Where no journal tells, the checkpoint does.
  disk->Put("journal.a", "damaged");
  disk->Put("journal.b", "damaged");
  Resume({"checkpoint.every=30s"});
  EXPECT_EQ(cluster->Status()["changes"], std::vector<std::string>{"checkpoint.every \"10s\" -> \"30s\""});
}

TEST_F(ChiefResumeTest, GoesOnFromTheNewest) {
  Resume();
  EXPECT_EQ(cluster->Status()["checkpoint"]["round"], "1-2");
  cluster->RunToRunning();
  EXPECT_EQ(cluster->role->term(), 2u);
  EXPECT_EQ(cluster->role->committed(), SetOf(0, 4));
  EXPECT_THAT(cluster->role->epochs(), ElementsAre(SliceEpoch{2, 1}, SliceEpoch{2, 1}));
  Finish();
  EXPECT_TRUE(disk->Has(ManifestPath({2, 1})));
  EXPECT_EQ(cluster->Status()["progress"]["examplesCommitted"], 24);
}

TEST_F(ChiefResumeTest, SlicesAreRestoredBeforeAnyWorkerIsThere) {
  Resume();
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  cluster->Wait(1s);
  EXPECT_THAT(cluster->Sent<RestoreSlice>(cluster->ps[0].bulk), SizeIs(1));
  EXPECT_EQ(cluster->role->state(), JobState::kQueued);
  cluster->ReportData(cluster->JoinWorker(0));
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
}

TEST_F(ChiefResumeTest, ADamagedNewestManifestCostsWhatCameAfterTheOlder) {
  std::string& manifest = disk->At(ManifestPath({1, 2}));
  manifest[manifest.size() / 2] ^= 1;
  Resume();
  cluster->RunToRunning();
  EXPECT_EQ(cluster->role->committed(), SetOf(0, 2));
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("checkpoints/1-2/MANIFEST"));
  Finish();
  EXPECT_TRUE(disk->Has(ManifestPath({1, 2}))) << "what cannot be read is not thrown away";
}

// Protocol holes A3 and A5: one slice restarts from the older checkpoint, and what it lacks is open again.
TEST_F(ChiefResumeTest, ADamagedRecordCostsItsSliceAnOlderState) {
  disk->At(ShardPath({1, 2}, "ps-0.shard"))[40] ^= 1;
  Resume();
  cluster->RunToRunning();
  EXPECT_EQ(cluster->role->committed(), SetOf(0, 2));
  int fallen_back = 0;
  for (const SliceEpoch epoch : cluster->role->epochs()) fallen_back += epoch == SliceEpoch{2, 2};
  EXPECT_EQ(fallen_back, 1) << "the other slice keeps its newer state";
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("checkpoints/1-2/ps-0.shard"));
  EXPECT_THAT(cluster->Ask(cluster->worker[0], 2), ElementsAre(LeaseId{2}, LeaseId{3}));
  cluster->Finish(cluster->worker[0], LeaseId{2});
  cluster->Finish(cluster->worker[0], LeaseId{3});
  Finish();
}

TEST_F(ChiefResumeTest, AJobOfWhichNoRecordCanBeReadEndsAndSaysSo) {
  Resume();
  disk->fate = [](const StorageOp& op) {
    return absl::EndsWith(op.path, "ps-0.shard") ? absl::PermissionDeniedError("permission denied") : absl::OkStatus();
  };
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  cluster->Wait(10s);
  EXPECT_FALSE(cluster->exit().has_value()) << "it may come back";
  cluster->Wait(60s);
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(cluster->exit()->code, 1);
  EXPECT_THAT(cluster->exit()->why, HasSubstr("can be used: checkpoints/1-2/ps-0.shard"));
  EXPECT_THAT(cluster->exit()->why, HasSubstr("permission denied. Bring its files back"));
  EXPECT_THAT(cluster->exit()->why, Not(HasSubstr("go on from it"))) << "nothing can, as it is";
}

TEST_F(ChiefResumeTest, WorkersThatCannotPrepareAreNoFaultOfTheJobFile) {
  Resume();
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  for (int i = 0; i < 2; ++i) {
    FakeMember& worker = cluster->JoinWorker(i);
    cluster->Say(worker.control, DataReport{worker.id, 0, 0, 0, "the GPU has no room"});
  }
  for (FakeMember& ps : cluster->ps) cluster->Say(ps.control, Leave{.from = ps.id, .why = "told so"});
  cluster->Wait(Shutdown::kRefusalGrace / 2);
  EXPECT_FALSE(cluster->exit().has_value()) << "the workers may not have read yet why they are refused";
  cluster->Wait(Shutdown::kRefusalGrace);
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(cluster->exit()->code, 1) << "with 78 nobody would try again";
  EXPECT_THAT(cluster->exit()->why, HasSubstr("the GPU has no room. The last checkpoint is checkpoints/1-2 with 4"));
}

TEST_F(ChiefResumeTest, WhatTheCheckpointHasIsToldBeforeAnybodyIsThere) {
  Resume();
  EXPECT_EQ(cluster->Status()["progress"]["examplesCommitted"], 16);
  cluster->Stop(15);
  cluster->Wait(Lifecycle::kLastRound - 1s);
  EXPECT_FALSE(cluster->exit().has_value()) << "its servers may live, and hold more";
  cluster->Wait(5s);
  ASSERT_TRUE(cluster->exit().has_value());
  const nlohmann::json summary = nlohmann::json::parse(disk->At("summary.json"));
  EXPECT_EQ(summary["state"], "CANCELLED");
  EXPECT_EQ(summary["epochs"], 1);
  EXPECT_EQ(summary["steps"], 8);
  EXPECT_EQ(summary["samplesCommitted"], 16);
}

TEST_F(ChiefResumeTest, ARecordLostInAllCheckpointsEndsTheJobInsteadOfItsTraining) {
  disk->At(ShardPath({1, 1}, "ps-1.shard")).clear();
  disk->Carry(Remove(ShardPath({1, 2}, "ps-1.shard")));
  Resume();
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  cluster->Wait(10s);
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(cluster->exit()->code, 1);
  EXPECT_THAT(cluster->exit()->why, HasSubstr("can be used: checkpoints/1-2/ps-1.shard"));
}

// What stands in the way is named, and what to type: so begins again who means to.
TEST_F(ChiefResumeTest, ACheckpointThatCannotBeUsedIsGivenUpByItsName) {
  disk->Carry(Remove(ShardPath({1, 1}, "ps-1.shard")));
  disk->Carry(Remove(ShardPath({1, 2}, "ps-1.shard")));
  Resume();
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  cluster->Wait(10s);
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_THAT(cluster->exit()->why, HasSubstr("again: in another job folder, or in this one with checkpoints/ set "
                                              "aside and --give_up=1-2"));
  for (const uint32_t n : {1, 2}) disk->Carry(Remove(ManifestPath({1, n})));
  Resume({}, Round{1, 2});
  cluster->RunToRunning();
  EXPECT_EQ(cluster->role->committed().Count(), 0u);
  Finish();
  EXPECT_TRUE(disk->Has(ManifestPath({3, 1})));
}

// The manifest of a checkpoint whose record is lost still says that all was committed: that must not end the job.
TEST_F(ChiefResumeTest, AnOldCheckpointOfEverythingDoesNotEndAJobThatLostARecord) {
  Resume();
  cluster->RunToRunning();
  Finish();
  disk->At(ShardPath({2, 1}, "ps-0.shard"))[40] ^= 1;
  Resume({"training.epochs=3"});
  cluster->RunToRunning();
  EXPECT_EQ(cluster->role->committed(), SetOf(0, 4));
  Finish();
  EXPECT_TRUE(disk->Has(ManifestPath({3, 1})));
}

TEST_F(ChiefResumeTest, EpochsMayBeRaised) {
  Resume({"training.epochs=3"});
  cluster->RunToRunning();
  EXPECT_EQ(cluster->Status()["progress"]["leases"], 9);
  Finish();
  EXPECT_EQ(cluster->role->committed(), SetOf(0, 9));
}

TEST_F(ChiefResumeTest, AnotherNumberOfServersTakesWholeSlices) {
  Resume({"cluster.parameterServerCount=1"});
  cluster->JoinPs(0);
  cluster->ReportData(cluster->JoinWorker(0));
  cluster->Wait(1s);
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
  EXPECT_EQ(cluster->role->committed(), SetOf(0, 4));
  EXPECT_THAT(cluster->Sent<RestoreSlice>(cluster->ps[0].bulk), SizeIs(2));
}

TEST_F(ChiefResumeTest, AnotherPlanIsRefusedWith78) {
  Resume({"training.batchSize=3"});
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(cluster->exit()->code, 78);
  EXPECT_THAT(cluster->exit()->why, HasSubstr("training.batchSize"));
  EXPECT_FALSE(disk->Has("summary.json"));
}

TEST_F(ChiefResumeTest, OtherDataIsRefusedWith78OnceNoWorkerHasTheOld) {
  Resume();
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  for (int i = 0; i < 2; ++i) cluster->ReportData(cluster->JoinWorker(i), ChiefHarness::kFingerprint + 1);
  EXPECT_EQ(cluster->role->state(), JobState::kFailed);
  EXPECT_THAT(cluster->Status()["errorMessage"],
              AllOf(HasSubstr("other data than checkpoint 1-2"), HasSubstr(". Put these files back on each host as")));
  cluster->Wait(4s);
  EXPECT_EQ(cluster->exit()->code, 78);
}

TEST_F(ChiefResumeTest, OtherDataOfOneWorkerIsNotWhyAnotherCannotPrepare) {
  Resume();
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  cluster->ReportData(cluster->JoinWorker(0), ChiefHarness::kFingerprint + 1);
  FakeMember& worker = cluster->JoinWorker(1);
  cluster->Say(worker.control, DataReport{worker.id, 0, 0, 0, "the GPU has no room"});
  cluster->Wait(4s);
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(cluster->exit()->code, 1) << "it may have room the next time";
  EXPECT_THAT(cluster->exit()->why, HasSubstr("the GPU has no room"));
}

// ---- More data ------------------------------------------------------------------------------------------------------

// The harness' data with more examples behind them, in a file of their own.
class MoreDataResumeTest : public ChiefResumeTest {
 protected:
  static constexpr uint64_t kMore = 20;  // 5 leases an epoch instead of 3
  void Report(FakeMember& worker, uint64_t examples = kMore) {
    DataReport report{worker.id, examples, ChiefHarness::kEvalExamples, 0, ""};
    report.eval_fingerprint = ChiefHarness::kEvalFingerprint;
    report.files = {{"a", ChiefHarness::kTrainExamples, ChiefHarness::kTrainFingerprint}};
    if (examples > ChiefHarness::kTrainExamples) report.files.push_back({"b", std::min(examples, kMore), 1});
    if (examples > kMore) report.files.push_back({"c", examples, 2});
    report.fingerprint = MixAll(report.files.back().fingerprint, report.eval_fingerprint);
    cluster->Say(worker.control, report);
  }
  void RunToRunning(uint64_t examples = kMore) {
    for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
    for (int i = 0; i < 2; ++i) Report(cluster->JoinWorker(i), examples);
    cluster->Wait(1s);
  }
};

TEST_F(MoreDataResumeTest, FurtherEpochsHaveAllDataAndThoseBegunTheirOwn) {
  Resume({"training.epochs=3"});
  RunToRunning();
  ASSERT_EQ(cluster->role->state(), JobState::kRunning);
  EXPECT_EQ(cluster->role->committed(), SetOf(0, 4)) << "in the midst of the second epoch";
  EXPECT_EQ(cluster->role->goal(), 3u + 3 + 5);
  const nlohmann::json progress = cluster->Status()["progress"];
  EXPECT_EQ(progress["examples"], 12 + 12 + 20);
  Finish();
  EXPECT_EQ(cluster->Status()["progress"]["examplesCommitted"], 12 + 12 + 20);
  const auto manifest = DecodeManifest(disk->At(ManifestPath({2, 1})));
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->train_examples, 20u);
  EXPECT_EQ(manifest->train_files.size(), 2u);
}

TEST_F(MoreDataResumeTest, AJobThatHasSucceededIsTrainedFurtherOnMore) {
  Resume();
  cluster->RunToRunning();
  Finish();
  Resume({"training.epochs=3"});
  RunToRunning();
  EXPECT_EQ(cluster->role->committed(), SetOf(0, 6));
  EXPECT_EQ(cluster->role->goal(), 11u);
  Finish();
}

TEST_F(MoreDataResumeTest, WithoutFurtherEpochsItIsRefusedWith78) {
  Resume();
  RunToRunning();
  EXPECT_EQ(cluster->role->state(), JobState::kFailed);
  EXPECT_THAT(
      cluster->Status()["errorMessage"],
      HasSubstr("has 20 examples instead of 12, by b. The job's 2 epochs keep the data that it was begun with"));
  cluster->Wait(4s);
  EXPECT_EQ(cluster->exit()->code, 78);
}

// Killed before and after the first worker said what there is, and before any checkpoint of it.
TEST_F(MoreDataResumeTest, AResumeThatIsKilledIsResumedAlike) {
  Resume({"training.epochs=3"});
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  Resume({"training.epochs=3"});
  RunToRunning();
  ASSERT_EQ(cluster->role->goal(), 11u);
  Resume({"training.epochs=3"});
  RunToRunning();
  EXPECT_EQ(cluster->role->goal(), 11u);
  EXPECT_EQ(cluster->role->committed(), SetOf(0, 4)) << "the checkpoint is of the data of before, and of this plan";
  Resume({"training.epochs=3"});
  RunToRunning(kMore + 1);
  EXPECT_EQ(cluster->role->state(), JobState::kFailed) << "its third epoch is fixed";
  EXPECT_THAT(cluster->Status()["errorMessage"], HasSubstr("than the job was resumed with"))
      << "the checkpoint has the data of before";
  Resume({"training.epochs=4"});
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  Report(cluster->JoinWorker(0));
  cluster->Wait(1s);
  EXPECT_EQ(cluster->role->goal(), 16u);
  Finish();
}

// A person may repair a further file as long as nothing was learnt from it.
TEST_F(MoreDataResumeTest, AfterAnEndFurtherDataBindOnlyIfACheckpointHasThem) {
  const auto cancel_before_it_runs = [this](uint64_t examples) {
    Resume({"training.epochs=3"});
    Report(cluster->JoinWorker(0), examples);
    cluster->Stop(15);
    cluster->Wait(60s);
    ASSERT_TRUE(cluster->exit().has_value());
  };
  cancel_before_it_runs(kMore + 5);
  cancel_before_it_runs(ChiefHarness::kTrainExamples);
  Resume();
  cluster->RunToRunning();
  EXPECT_EQ(cluster->role->goal(), 6u) << "without them";
  Resume({"training.epochs=3"});
  RunToRunning();
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
  EXPECT_EQ(cluster->role->committed(), SetOf(0, 4));
  EXPECT_EQ(cluster->role->goal(), 11u);
  Finish();
  Resume({"training.epochs=4"});
  RunToRunning(kMore - 1);
  EXPECT_EQ(cluster->role->state(), JobState::kFailed) << "the checkpoint of the third epoch has 20 examples";
}

TEST_F(MoreDataResumeTest, WithoutAJournalTheCheckpointTells) {
  for (const char* copy : {"journal.a", "journal.b"}) disk->Put(copy, "damaged");
  Resume({"training.epochs=3"});
  RunToRunning();
  EXPECT_EQ(cluster->role->goal(), 11u);
  Finish();
}

TEST_F(MoreDataResumeTest, FurtherEpochsOnTheSameDataAreThePlanOfBefore) {
  Resume({"training.epochs=3"});
  RunToRunning(ChiefHarness::kTrainExamples);
  EXPECT_EQ(cluster->role->goal(), 9u);
  Finish();
}

TEST_F(ChiefResumeTest, WithoutResumeTheFolderOfAJobThatIsOverIsRefused) {
  Resume();
  cluster->RunToRunning();
  Finish();
  cluster = std::make_unique<ChiefHarness>(SmallJob(), false, disk);
  cluster->Start();
  cluster->Wait(4s);
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(cluster->exit()->code, 0) << "there is nothing to do";
  EXPECT_THAT(cluster->exit()->why, HasSubstr("--resume"));
}

TEST_F(ChiefResumeTest, IncarnationsOfTheFormerTermAreNobody) {
  Resume();
  cluster->RunToRunning();
  const Incarnation former{uint64_t{1} << 32 | 1};
  cluster->Say(PeerId{99}, Heartbeat{.from = former, .stats = {}, .log_lines = {}});
  ASSERT_THAT(cluster->Sent<Refused>(PeerId{99}), SizeIs(1));
  EXPECT_EQ(cluster->Sent<Refused>(PeerId{99})[0].code, RefusalCode::kUnknown);
}

}  // namespace
}  // namespace downpour
