// The rest of the user's program: who runs it, with which values, and what its end does to the job.
#include <gmock/gmock.h>

#include "tests/unit/chief/epilogue_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(EpilogueTest, TheFirstWorkerIsGivenItAndItsEndIsTheJobs) {
  Train();
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(first()), Not(IsEmpty()));
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(second()), IsEmpty());
  const auto history = nlohmann::json::parse(cluster->Sent<EpilogueGrant>(first()).back().history);
  EXPECT_EQ(history.back()["epoch"], 2);
  EXPECT_EQ(history.back()["evalLoss"], 0.5);
  EXPECT_EQ(State(), "RUNNING");
  Say(first(), Attempt(first()));
  EXPECT_EQ(State(), "SUCCEEDED");
}

TEST_F(EpilogueTest, StatusMarksTheTaskThatRunsIt) {
  const auto is_master = [&](const char* task) { return cluster->TaskStatus(task).value("master", false); };
  Begin();
  EXPECT_TRUE(is_master("worker-0")) << "in which fit() will return";
  EXPECT_FALSE(is_master("worker-1"));
  EXPECT_FALSE(is_master("ps-0"));
  TrainAndEvaluate();
  cluster->Wait(1s);
  first().alive = false;
  cluster->Wait(30s);
  ASSERT_THAT(cluster->Sent<EpilogueGrant>(second()), Not(IsEmpty()));
  EXPECT_TRUE(is_master("worker-1"));
  EXPECT_FALSE(is_master("worker-0"));
  Say(second(), Attempt(second()));
  EXPECT_EQ(State(), "SUCCEEDED");
  EXPECT_TRUE(is_master("worker-1"));
}

TEST_F(EpilogueTest, NothingIsGivenBeforeAllIsInACheckpoint) {
  Begin();
  cluster->ps[0].answers_snapshots = false;
  TrainAndEvaluate();
  cluster->Wait(5s);
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(first()), IsEmpty());
}

TEST_F(EpilogueTest, RecordsAreSentAsTheyStandInTheCheckpoint) {
  Train();
  cluster->Forget();
  cluster->Say(first().control, RecordRequest{first().id, 1, SliceId{0}});
  EXPECT_THAT(cluster->Sent<RestoreSlice>(first()), IsEmpty()) << "another attempt's";
  cluster->Wait(1s);
  cluster->Say(first().control, RecordRequest{first().id, Attempt(first()), SliceId{0}});
  const auto sent = cluster->Sent<RestoreSlice>(first());
  ASSERT_THAT(sent, SizeIs(1));
  const auto state = DecodeRecord(sent[0].blocks);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->slice, SliceId{0});
  const uint64_t rejected = cluster->TaskStatus("worker-0")["rejected"];
  cluster->Say(first().control, RecordRequest{first().id, Attempt(first()), SliceId{99}});
  EXPECT_EQ(cluster->TaskStatus("worker-0")["rejected"], rejected + 1);
}

TEST_F(EpilogueTest, ARecordThatIsBeingReadIsReadOnce) {
  Train();
  cluster->Forget();
  cluster->disk_hangs = true;
  for (int i = 0; i < 3; ++i) cluster->Say(first().control, RecordRequest{first().id, 1ull << 32 | 1, SliceId{0}});
  cluster->LetDiskGoOn();
  cluster->Wait(1s);
  EXPECT_THAT(cluster->Sent<RestoreSlice>(first()), SizeIs(1));
}

// It has the grant then; a history may be a megabyte.
TEST_F(EpilogueTest, TheHistoryIsSentUntilTheWorkerAsksForValues) {
  Train();
  cluster->Wait(5s);
  EXPECT_NE(cluster->Sent<EpilogueGrant>(first()).back().history, "");
  cluster->Say(first().control, RecordRequest{first().id, Attempt(first()), SliceId{0}});
  cluster->Forget();
  cluster->Wait(5s);
  EXPECT_EQ(cluster->Sent<EpilogueGrant>(first()).back().history, "");
}

TEST_F(EpilogueTest, AWorkerThatLeavesIsNotGivenIt) {
  Begin();
  first().leaving = "SIGTERM";
  cluster->Wait(1s);
  TrainAndEvaluate();
  cluster->Wait(1s);
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(first()), IsEmpty());
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(second()), Not(IsEmpty()));
}

TEST_F(EpilogueTest, AWorkerThatTheJobDoesWithoutIsNotGivenIt) {
  Begin();
  cluster->Say(PeerId{99}, Control{cluster->role->term(), 1, 1, ControlKind::kScale, 1});
  TrainAndEvaluate();
  first().alive = false;
  cluster->Wait(60s);
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(second()), IsEmpty()) << "it was told to go";
}

// Its program may run, or have ended: whoever comes back before it would run it a second time beside it.
TEST_F(EpilogueTest, ALaterChiefAsksTheTaskThatHadIt) {
  Train();
  first().alive = false;
  cluster->Wait(30s);
  ASSERT_THAT(cluster->Sent<EpilogueGrant>(second()), Not(IsEmpty()));
  Restart(job_);
  cluster->RunToRunning();
  cluster->Ask(second(), 2);
  cluster->Evaluate(second());
  cluster->Wait(10s);
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(first()), IsEmpty()) << "it is back, and comes first";
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(second()), Not(IsEmpty()));
}

TEST_F(EpilogueTest, EachAttemptHasTheHistory) {
  Train();
  cluster->Say(first().control, RecordRequest{first().id, Attempt(first()), SliceId{0}});
  first().alive = false;
  cluster->Wait(30s);
  ASSERT_THAT(cluster->Sent<EpilogueGrant>(second()), Not(IsEmpty()));
  EXPECT_NE(cluster->Sent<EpilogueGrant>(second()).back().history, "");
}

// A round that is made for a ps which leaves takes the place of the one before, whose files may go.
TEST_F(EpilogueTest, ValuesComeFromTheNewestRound) {
  Begin();
  cluster->ps[0].answers_snapshots = false;
  TrainAndEvaluate();
  for (const FakeMember& worker : cluster->worker) cluster->Say(worker.control, Leave{worker.id, "killed"});
  cluster->ps[0].answers_snapshots = true;
  cluster->Wait(30s);
  ASSERT_TRUE(cluster->disk->Has(ManifestPath({1, 1})));
  cluster->ps[0].leaving = "SIGTERM";
  cluster->Wait(5s);
  ASSERT_TRUE(cluster->disk->Has(ManifestPath({1, 2})));
  first().join.nonce += 1000;
  cluster->ReportData(cluster->JoinWorker(0));
  cluster->Wait(5s);
  ASSERT_THAT(cluster->Sent<EpilogueGrant>(first()), Not(IsEmpty()));
  cluster->Say(first().control, RecordRequest{first().id, Attempt(first()), SliceId{0}});
  const auto sent = cluster->Sent<RestoreSlice>(first());
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].round, (Round{1, 2}));
}

// Each death begins the wait for the first worker anew, however long the job has ended.
TEST_F(EpilogueTest, AfterEachDeathTheFirstWorkerIsWaitedFor) {
  Train();
  cluster->Wait(2 * Epilogue::kWaitsForFirst);
  Replace(first());
  cluster->Wait(1s);
  ASSERT_THAT(cluster->Sent<EpilogueGrant>(second()), Not(IsEmpty()));
  cluster->Forget();
  Replace(second());
  cluster->ReportData(second());
  cluster->Wait(Epilogue::kWaitsForFirst / 2);
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(second()), IsEmpty()) << "the first still prepares";
  cluster->ReportData(first());
  cluster->Wait(1s);
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(first()), Not(IsEmpty()));
}

TEST_F(EpilogueTest, AFirstWorkerThatPreparesForeverIsNotWaitedForForever) {
  Train();
  Replace(first());
  cluster->Wait(1s);
  ASSERT_THAT(cluster->Sent<EpilogueGrant>(second()), Not(IsEmpty())) << "the only one that is there";
  cluster->Forget();
  Replace(second());
  cluster->ReportData(second());
  cluster->Wait(Epilogue::kWaitsForFirst - 1s);
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(second()), IsEmpty());
  cluster->Wait(2s);
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(second()), Not(IsEmpty()));
}

// A newer round took its place while its manifest was read, and its files went.
TEST_F(EpilogueTest, AManifestThatWasRemovedMeanwhileFailsNothing) {
  job_.checkpoint.keep = 1;
  Begin();
  int reads = 0;
  cluster->disk->fate = [&](const StorageOp& op) {
    const bool of_manifest = op.kind == StorageOp::Kind::kRead && op.path == ManifestPath({1, 1});
    reads += of_manifest;
    return of_manifest ? absl::UnavailableError("the disk is slow") : absl::OkStatus();
  };
  TrainAndEvaluate();
  cluster->Wait(1s);
  ASSERT_GT(reads, 0);
  ASSERT_THAT(cluster->Sent<EpilogueGrant>(first()), IsEmpty());
  cluster->ps[0].leaving = "SIGTERM";
  cluster->Wait(10s);
  ASSERT_FALSE(cluster->disk->Has(ManifestPath({1, 1})));
  EXPECT_EQ(State(), "RUNNING");
  ASSERT_THAT(cluster->Sent<EpilogueGrant>(first()), Not(IsEmpty()));
}

TEST_F(EpilogueTest, AManifestThatIsRemovedByHandFailsTheJobWithASentence) {
  Begin();
  cluster->disk->fate = [&](const StorageOp& op) {
    const bool of_manifest = op.kind == StorageOp::Kind::kRead && op.path == ManifestPath({1, 1});
    return of_manifest ? absl::NotFoundError("no such file") : absl::OkStatus();
  };
  TrainAndEvaluate();
  cluster->Wait(2s);
  EXPECT_EQ(State(), "RUNNING") << "the disk may get over it";
  cluster->Wait(30s);
  EXPECT_EQ(State(), "FAILED");
  EXPECT_THAT(Error(), HasSubstr("the values for the rest of the program cannot be read: checkpoints/1-1/MANIFEST"));
}

// No evaluation was of a number, or its checkpoint is lost.
TEST_F(EpilogueTest, WhereEarlyStoppingHasNoBestTheNewestValuesCount) {
  job_.training.stop_early = StopEarlySpec();
  Train();
  cluster->Say(first().control, RecordRequest{first().id, Attempt(first()), SliceId{0}});
  const auto sent = cluster->Sent<RestoreSlice>(first());
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].round, (Round{1, 1}));
}

// Its program has ended, and with it the process in which it would evaluate. To begin that from the start may take for
// ever, as where the program waits for something that it finds once.
TEST_F(EpilogueTest, ALaterChiefHearsOfTheEndWithoutAnotherEvaluation) {
  Train();
  ASSERT_THAT(cluster->Sent<EpilogueGrant>(first()), Not(IsEmpty()));
  Restart(job_);
  cluster->RunToRunning();
  for (FakeMember& worker : cluster->worker) cluster->Ask(worker, 2);
  cluster->Wait(10s);
  for (const FakeMember& worker : cluster->worker) EXPECT_THAT(cluster->Sent<EvalGrant>(worker), IsEmpty());
  ASSERT_THAT(cluster->Sent<EpilogueGrant>(first()), Not(IsEmpty()));
  Say(first(), Attempt(first()));
  EXPECT_EQ(State(), "SUCCEEDED");
  SayGoodbye();
  EXPECT_EQ(Summary()["evalLoss"], 0.5);
  const std::string& history = cluster->disk->At("metrics.jsonl");
  const std::string line = R"("kind":"eval")";
  EXPECT_EQ(history.find(line), history.rfind(line)) << "it was told once";
}

TEST_F(EpilogueTest, ByOtherSettingsItIsEvaluatedAgain) {
  Train();
  job_.checkpoint.keep = 3;
  Restart(job_);
  cluster->RunToRunning();
  cluster->Ask(first(), 2);
  cluster->Wait(5s);
  EXPECT_THAT(cluster->Sent<EvalGrant>(first()), Not(IsEmpty()));
}

// All that was learned is durable, and the program may run for hours.
TEST_F(EpilogueTest, AServerThatIsGoneTakesNothingAlong) {
  Train();
  cluster->ps[0].alive = false;
  cluster->Wait(std::chrono::minutes(30));
  EXPECT_EQ(State(), "RUNNING");
  Say(first(), Attempt(first()));
  EXPECT_EQ(State(), "SUCCEEDED");
}

TEST_F(EpilogueTest, WhatItRaisesIsTheJobsFailure) {
  Train();
  Say(first(), Attempt(first()), "ValueError: no room, at trainer/task.py:12");
  EXPECT_EQ(State(), "FAILED");
  EXPECT_THAT(Error(), HasSubstr("behind fit(), failed at worker-0: ValueError: no room, at trainer/task.py:12. "));
  EXPECT_THAT(Error(), HasSubstr("--resume"));
}

TEST_F(EpilogueTest, OnlyTheNewestAttemptCounts) {
  Train();
  const uint64_t attempt = Attempt(first());
  first().alive = false;
  cluster->Wait(30s);
  ASSERT_THAT(cluster->Sent<EpilogueGrant>(second()), Not(IsEmpty()));
  EXPECT_GT(Attempt(second()), attempt);
  Say(first(), attempt);
  Say(second(), attempt);
  cluster->Say(second().control, EpilogueDone{first().id, Attempt(second()), ""});
  EXPECT_EQ(State(), "RUNNING");
  Say(second(), Attempt(second()));
  EXPECT_EQ(State(), "SUCCEEDED");
}

TEST_F(EpilogueTest, SixDeathsAreEnough) {
  Train();
  for (int i = 1; i <= Epilogue::kMostAttempts; ++i) {
    ASSERT_EQ(State(), "RUNNING") << i;
    FakeMember& at = cluster->worker[cluster->Sent<EpilogueGrant>(first()).empty()];
    cluster->Forget();
    cluster->Say(at.control, Leave{at.id, "its process was killed"});
    at.join.nonce += 1000;
    cluster->JoinWorker(at.join.index);
    cluster->ReportData(at);
    cluster->Wait(2s);
  }
  EXPECT_EQ(State(), "FAILED");
  EXPECT_THAT(Error(), HasSubstr("was begun 6 times, and each time its process died; the last time at worker-"));
}

}  // namespace
}  // namespace downpour
