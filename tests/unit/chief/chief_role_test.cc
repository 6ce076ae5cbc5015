// The life of a job through Step alone, with hand-made messages: its beginning and every kind of end.
#include "chief/chief_role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(ChiefRoleTest, RunsAJobToItsEnd) {
  StartRunning();
  TrainAndEvaluate();
  EXPECT_EQ(cluster->role->state(), JobState::kSucceeded);
  for (const FakeMember* member : {&cluster->ps[0], &cluster->worker[1]}) {
    ASSERT_THAT(cluster->Sent<JobEnd>(*member), Not(IsEmpty()));
    EXPECT_TRUE(cluster->Sent<JobEnd>(*member)[0].succeeded);
  }
  EXPECT_FALSE(cluster->exit().has_value()) << "not before they said goodbye";
  SayGoodbye();
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(cluster->exit()->code, 0);
  const nlohmann::json summary = Summary();
  EXPECT_EQ(summary["state"], "SUCCEEDED");
  EXPECT_EQ(summary["samplesCommitted"], 24);
  EXPECT_EQ(summary["steps"], 12);
  EXPECT_EQ(summary["epochs"], 2);
  EXPECT_EQ(summary["evalLoss"], 0.5);
  EXPECT_EQ(summary["trainLoss"], 0.5);
  EXPECT_EQ(summary["checkpoint"], "checkpoints/1-1");
}

TEST_F(ChiefRoleTest, NobodyIsWelcomedBeforeTheTermIsDurable) {
  ChiefRole chief({.job = SmallJob(), .job_dir = "/j", .host = "h", .pid = 1, .resume = false, .timing = {}});
  MemoryDisk disk;
  Effects out;
  chief.Step({}, Started{1, "h:1"}, out);
  Join join;
  bool welcomed = false;
  for (int i = 0; i < 100 && !welcomed; ++i) {
    for (Effect& effect : out.Take()) {
      if (const auto* op = std::get_if<StorageOp>(&effect)) chief.Step({}, disk.Carry(*op), out);
      const auto* send = std::get_if<Send>(&effect);
      welcomed |= send != nullptr && std::holds_alternative<Welcome>(send->message);
    }
    EXPECT_EQ(welcomed, chief.term() != 0 && welcomed);
    EXPECT_TRUE(!welcomed || (disk.Has("term.a") && disk.Has("term.b")));
    chief.Step({}, Received{PeerId{7}, join}, out);
  }
  EXPECT_TRUE(welcomed);
}

TEST_F(ChiefRoleTest, APsThatBeginsToRunWaitsForNothing) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->Start();
  cluster->ps[1].answers_assign = false;
  cluster->ps[1].stats.waiting_for = "its slices";  // as it still says in the heartbeat before it has them
  cluster->JoinPs(0);
  cluster->JoinWorker(0);
  cluster->JoinPs(1);
  cluster->ReportData(cluster->worker[0]);
  cluster->Wait(2s);
  const auto told = [&] { return cluster->Status()["tasks"].dump(); };
  EXPECT_THAT(told(), HasSubstr("its slices"));
  cluster->ps[1].answers_assign = true;
  while (cluster->role->state() != JobState::kRunning) cluster->Wait(Timing{}.tick);
  cluster->Wait(Timing{}.tick);  // the next heartbeat comes later
  EXPECT_THAT(told(), Not(HasSubstr("its slices")));
}

TEST_F(ChiefRoleTest, WaitsForItsTasksThenForTheirSlices) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->Start();
  EXPECT_EQ(cluster->role->state(), JobState::kQueued);
  cluster->ps[1].answers_assign = false;
  cluster->JoinPs(0);
  cluster->JoinWorker(0);
  cluster->JoinPs(1);
  EXPECT_EQ(cluster->role->state(), JobState::kPreparing);
  cluster->ReportData(cluster->worker[0]);
  cluster->Wait(2s);
  EXPECT_EQ(cluster->role->state(), JobState::kPreparing);
  EXPECT_THAT(cluster->Sent<Placement>(cluster->worker[0]), IsEmpty());
  EXPECT_THAT(cluster->Status()["waits"].dump(), HasSubstr("ps-1"));
  cluster->ps[1].answers_assign = true;
  cluster->Wait(1s);
  EXPECT_EQ(cluster->role->state(), JobState::kRunning) << "one worker is enough to begin";
  ASSERT_THAT(cluster->Sent<Placement>(cluster->worker[0]), SizeIs(1));
  EXPECT_EQ(cluster->Sent<Placement>(cluster->worker[0])[0].to, cluster->worker[0].id);
  EXPECT_EQ(cluster->Sent<Placement>(cluster->worker[0])[0].slices.size(), 2u);
}

TEST_F(ChiefRoleTest, APlacementThatWasLostIsSentAgain) {
  StartRunning();
  cluster->Forget();
  cluster->worker[1].placement = 0;
  cluster->JoinWorker(1).join.nonce = 99;
  cluster->Say(cluster->worker[0].control, Heartbeat{.from = cluster->worker[0].id, .stats = {}, .log_lines = {}});
  EXPECT_THAT(cluster->Sent<Placement>(cluster->worker[0]), IsEmpty()) << "it has said that it has it";

  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->Start();
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  cluster->ReportData(cluster->JoinWorker(0));
  cluster->worker[0].placement = 0;  // lost
  cluster->Forget();
  cluster->Beat(cluster->worker[0]);
  EXPECT_THAT(cluster->Sent<Placement>(cluster->worker[0]), SizeIs(1));
}

// ---- Ends -----------------------------------------------------------------------------------------------------------

TEST_F(ChiefRoleTest, OfTwoReasonsToFailInOneStepTheFirstIsTold) {
  StartRunning();
  cluster->Forget();
  for (FakeMember& server : cluster->ps) server.alive = false;
  cluster->Wait(JobSpec().timing.server_wait + 1s);
  EXPECT_THAT(cluster->Status()["errorMessage"], HasSubstr("ps-0"));
  const auto is_error = [](const Effect& effect) {
    const Log* log = std::get_if<Log>(&effect);
    return log != nullptr && log->severity == Severity::kError;
  };
  EXPECT_EQ(std::count_if(cluster->effects.begin(), cluster->effects.end(), is_error), 1);
}

TEST_F(ChiefRoleTest, AFailedJobStillEndsTheCheckpointWhoseManifestIsBeingWritten) {
  StartRunning({"training.maxSkippedPushes=0"});
  cluster->disk->fate = [this](const StorageOp& op) {
    cluster->disk_hangs = op.kind == StorageOp::Kind::kSync && op.path == "checkpoints/1-1/MANIFEST.tmp";
    return absl::OkStatus();
  };
  cluster->Wait(10s);
  ASSERT_TRUE(cluster->disk_hangs);
  cluster->ps[1].stats.pushes_skipped = 1;
  cluster->Wait(1s);
  ASSERT_EQ(cluster->role->state(), JobState::kFailed);
  SayGoodbye();
  EXPECT_FALSE(cluster->exit().has_value());
  cluster->LetDiskGoOn();
  cluster->Wait(100ms);
  EXPECT_TRUE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(Summary()["checkpoint"], "checkpoints/1-1");
}

TEST_F(ChiefRoleTest, APsThatLeavesWhileWaitingIsWaitedForAgain) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->Start();
  cluster->JoinPs(0);
  cluster->Say(cluster->ps[0].control, Leave{cluster->ps[0].id, "ended by SIGTERM"});
  cluster->ps[0].join.nonce = 5;
  cluster->RunToRunning();
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
}

TEST_F(ChiefRoleTest, TooManyPushesThatAreNotFiniteFailTheJob) {
  StartRunning({"training.maxSkippedPushes=3"});
  cluster->ps[0].stats.pushes_skipped = 2;
  cluster->ps[1].stats.pushes_skipped = 1;
  cluster->Wait(1s);
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("skipped 2 pushes, which changed nothing: not finite"));
  cluster->ps[1].stats.pushes_skipped = 2;
  cluster->Wait(1s);
  EXPECT_EQ(cluster->role->state(), JobState::kFailed);
  EXPECT_THAT(cluster->Status()["errorMessage"], HasSubstr("maxSkippedPushes"));
}

// A short job is over before the next heartbeat, and who counted may have died: the slices' own counts go.
TEST_F(ChiefRoleTest, ThePushesThatTheSlicesOfTheLastRoundSkippedDecideOverSuccess) {
  for (const uint64_t skipped : {3, 4}) {
    StartRunning({"training.maxSkippedPushes=3"});
    uint64_t left = skipped;
    for (FakeMember& server : cluster->ps) {
      for (auto& [slice, state] : server.slices) left -= state.skipped = std::min<uint64_t>(left, 2);
    }
    ASSERT_EQ(left, 0u);
    TrainAndEvaluate();
    cluster->Wait(100ms);
    ASSERT_EQ(cluster->role->state(), skipped == 3 ? JobState::kSucceeded : JobState::kFailed);
    EXPECT_EQ(cluster->disk->Has("checkpoints/1-1/MANIFEST"), skipped == 3) << "it would hide those before it";
  }
  EXPECT_THAT(cluster->Status()["errorMessage"],
              AllOf(HasSubstr("4 pushes were skipped, more than training.maxSkippedPushes (3) allows"),
                    HasSubstr("the model diverged: try a lower training.optimizer.learningRate"),
                    HasSubstr("start it again with downpour run j.yaml --set "
                              "training.optimizer.learningRate=0.01")));
  EXPECT_EQ(cluster->Status()["next"].back(), "downpour run j.yaml --set training.optimizer.learningRate=0.01");
  SayGoodbye();
  cluster->Wait(100ms);
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(cluster->exit()->code, 1);
}

TEST_F(ChiefRoleTest, AnyRoundWhoseSlicesSkippedTooManyFailsTheJobAndLeavesTheCheckpointsBefore) {
  StartRunning({"training.maxSkippedPushes=3"});
  cluster->Wait(12s);
  ASSERT_TRUE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
  cluster->ps[1].slices.begin()->second.skipped = 4;
  cluster->Wait(12s);
  EXPECT_EQ(cluster->role->state(), JobState::kFailed);
  EXPECT_THAT(cluster->Status()["errorMessage"], HasSubstr("The last checkpoint is checkpoints/1-1 with"));
  EXPECT_FALSE(cluster->disk->Has("checkpoints/1-2/MANIFEST"));
}

TEST_F(ChiefRoleTest, ALossThatIsNotFiniteIsNoSuccess) {
  for (const double loss : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    StartRunning();
    cluster->evaluated_loss = loss;
    TrainAndEvaluate();
    cluster->Wait(100ms);
    EXPECT_EQ(cluster->role->state(), JobState::kFailed);
    EXPECT_THAT(cluster->Status()["errorMessage"], HasSubstr("the loss of the last evaluation is not finite"));
  }
}

TEST_F(ChiefRoleTest, AnEarlierLossThatIsNotFiniteIsNotTheLast) {
  StartRunning();
  cluster->evaluated_loss = std::numeric_limits<double>::infinity();
  const LeaseId leases[] = {LeaseId{0}, LeaseId{1}, LeaseId{2}};
  for (const LeaseId lease : leases) {
    EXPECT_EQ(cluster->Ask(cluster->worker[0], 1), std::vector<LeaseId>{lease});
    cluster->Finish(cluster->worker[0], lease);
  }
  cluster->Ask(cluster->worker[0], 1);
  cluster->Evaluate(cluster->worker[0]);
  ASSERT_FALSE(cluster->Status()["evaluation"].is_null());
  cluster->evaluated_loss = 0.5;
  cluster->Forget();
  cluster->Finish(cluster->worker[0], LeaseId{3});
  TrainAndEvaluate();
  cluster->Wait(100ms);
  EXPECT_EQ(cluster->role->state(), JobState::kSucceeded) << cluster->Status()["errorMessage"];
}

TEST_F(ChiefRoleTest, ASignalEndsARunningJobAfterOneLastCheckpoint) {
  StartRunning();
  const std::vector<LeaseId> leases = cluster->Ask(cluster->worker[0], 2);
  cluster->Finish(cluster->worker[0], leases[0]);
  cluster->ps[0].answers_snapshots = false;
  cluster->Stop(2);
  EXPECT_EQ(cluster->role->state(), JobState::kCancelling);
  EXPECT_THAT(cluster->Ask(cluster->worker[1], 2), IsEmpty()) << "no more grants";
  cluster->Finish(cluster->worker[0], leases[1]);
  EXPECT_EQ(cluster->role->committed().Count(), 1u) << "the checkpoint does not promise the other one";
  cluster->Say(cluster->worker[1].control, Leave{.from = cluster->worker[1].id, .why = "told to stop"});
  EXPECT_THAT(cluster->Status()["next"].dump(), Not(HasSubstr("downpour-worker"))) << "it would find nothing to do";
  cluster->ps[0].answers_snapshots = true;
  cluster->Wait(Timing{}.data_retry);
  EXPECT_EQ(cluster->role->state(), JobState::kCancelled);
  EXPECT_TRUE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
  SayGoodbye();
  EXPECT_EQ(cluster->exit()->code, 130);
  EXPECT_EQ(Summary()["state"], "CANCELLED");
  EXPECT_THAT(std::string(Summary()["errorMessage"]), HasSubstr("checkpoints/1-1 with 1 lease:"));
}

TEST_F(ChiefRoleTest, ALastCheckpointThatCannotBeWrittenDoesNotHoldTheEndUp) {
  StartRunning();
  cluster->ps[0].answers_snapshots = false;
  cluster->Stop(15);
  cluster->Wait(21s);
  EXPECT_EQ(cluster->role->state(), JobState::kCancelled);
  SayGoodbye();
  EXPECT_EQ(cluster->exit()->code, 143);
}

// A second signal of a person ends the process without asking the role.
TEST_F(ChiefRoleTest, TheShutdownThatFollowsANoticeChangesNothing) {
  StartRunning();
  cluster->ps[0].answers_snapshots = false;
  cluster->Feed(StopRequested{15, "a notice of the cloud"});
  cluster->Stop(15);
  EXPECT_FALSE(cluster->exit().has_value());
  cluster->ps[0].answers_snapshots = true;
  cluster->Wait(Timing{}.data_retry);
  EXPECT_EQ(cluster->role->state(), JobState::kCancelled);
  EXPECT_TRUE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
  SayGoodbye();
  EXPECT_EQ(cluster->exit()->code, 143);
  EXPECT_THAT(std::string(Summary()["errorMessage"]), HasSubstr("a notice of the cloud"));
}

TEST_F(ChiefRoleTest, AJobWhoseTimeIsOverIsCancelledAfterOneLastCheckpoint) {
  StartRunning({"scheduling.maxRunningTime=5s", "checkpoint.every=0s"});
  cluster->Finish(cluster->worker[0], cluster->Ask(cluster->worker[0], 1)[0]);
  cluster->Wait(3s);
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
  cluster->Wait(3s);
  EXPECT_EQ(cluster->role->state(), JobState::kCancelled);
  EXPECT_TRUE(cluster->disk->Has("checkpoints/1-1/MANIFEST"));
  SayGoodbye();
  EXPECT_EQ(cluster->exit()->code, 124);
  EXPECT_EQ(Summary()["state"], "CANCELLED");
  EXPECT_THAT(std::string(Summary()["errorMessage"]), HasSubstr("it has run for the 5 s of scheduling.maxRunningTime"));
  EXPECT_THAT(std::string(Summary()["errorMessage"]), HasSubstr("--resume"));
}

TEST_F(ChiefRoleTest, AJobWhoseTimeIsOverAmidTheUsersCodeSaysAtWhichLine) {
  StartRunning({"scheduling.maxRunningTime=8s"});
  FakeMember& worker = cluster->worker[1];
  worker.stats.warning = "the Python code has been in one call for 9 s, at task.py:1";
  worker.stats.warned_ms_ago = 0;
  cluster->Beat(worker);
  cluster->Wait(3s);
  worker.stats = TaskStats();
  worker.stats.waiting_for = "its Python code to compute step 1 of lease 0";
  cluster->Beat(worker);
  worker.stats.warning = "the Python code has been in one call for 2 s, at task.py:12, in loss: sleep(100)";
  worker.stats.warned_ms_ago = 0;
  cluster->Wait(6s);
  EXPECT_THAT(std::string(Summary()["errorMessage"]),
              HasSubstr("each start; worker-1 waits for its Python code to compute step 1 of lease 0: the Python code "
                        "has been in one call for 2 s, at task.py:12, in loss: sleep(100)"));
}

// The rest is over and done.
TEST_F(ChiefRoleTest, AWarningOfACallThatIsOverIsNotWhyTheTimeWasNotEnough) {
  StartRunning({"scheduling.maxRunningTime=8s"});
  cluster->worker[1].stats.warning = "the Python code has been in one call for 2 s, at task.py:12";
  cluster->Wait(9s);
  EXPECT_THAT(std::string(Summary()["errorMessage"]), Not(HasSubstr("task.py")));
}

// Its window of reports goes over epochs.
TEST_F(ChiefRoleTest, TheLastLossIsTheLastEpochs) {
  StartRunning();
  FakeMember& worker = cluster->worker[0];
  for (const double loss : {0.75, 0.25}) {
    cluster->trained_loss = loss;
    for (int i = 0; i < 3; ++i) cluster->Finish(worker, cluster->Ask(worker, 1)[0]);
  }
  EXPECT_EQ(cluster->Status()["progress"]["loss"], 0.25);
  cluster->Ask(worker, 2);
  cluster->Evaluate(worker);
  SayGoodbye();
  EXPECT_EQ(Summary()["trainLoss"], 0.25);
}

TEST_F(ChiefRoleTest, TheTimeBeforeItsChiefCountsForMaxRunningTime) {
  cluster = std::make_unique<ChiefHarness>(SmallJob({"scheduling.maxRunningTime=60s"}), false,
                                           std::make_shared<MemoryDisk>(), Round(), /*ran_before=*/50s);
  cluster->Start();
  cluster->RunToRunning();
  EXPECT_LE(double{cluster->Status()["allowedSeconds"]}, 10);
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
  cluster->Wait(11s);
  EXPECT_EQ(cluster->Status()["state"], "CANCELLED");
}

TEST_F(ChiefRoleTest, ASignalWhileWaitingEndsItWithoutACheckpoint) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->Start();
  cluster->JoinPs(0);
  cluster->Stop(2);
  EXPECT_EQ(cluster->role->state(), JobState::kCancelled);
  cluster->Wait(4s);
  EXPECT_EQ(cluster->exit()->code, 130);
}

TEST_F(ChiefRoleTest, MembersAreToldOfTheEndUntilTheyLeftForThreeSecondsAtMost) {
  StartRunning();
  TrainAndEvaluate();
  cluster->Say(cluster->worker[0].control, Leave{cluster->worker[0].id, "the job is over"});
  cluster->worker[0].alive = false;
  cluster->Forget();
  cluster->Wait(2900ms);
  EXPECT_THAT(cluster->Sent<JobEnd>(cluster->worker[0]), IsEmpty()) << "it left";
  EXPECT_GE(cluster->Sent<JobEnd>(cluster->worker[1]).size(), 5u);
  EXPECT_LE(cluster->Sent<JobEnd>(cluster->worker[1]).size(), 7u);
  EXPECT_FALSE(cluster->exit().has_value());
  cluster->Wait(200ms);
  EXPECT_EQ(cluster->exit()->code, 0);
}

TEST_F(ChiefRoleTest, WhoComesAfterTheEndIsToldSo) {
  StartRunning();
  TrainAndEvaluate();
  Join late = cluster->worker[1].join;
  late.nonce = 77;
  cluster->Say(PeerId{99}, late);
  ASSERT_THAT(cluster->Sent<JobEnd>(PeerId{99}), SizeIs(1));
  EXPECT_TRUE(cluster->Sent<JobEnd>(PeerId{99})[0].succeeded);
  cluster->Say(PeerId{98}, Heartbeat{.from = Incarnation{77}, .stats = {}, .log_lines = {}});
  EXPECT_THAT(cluster->Sent<JobEnd>(PeerId{98}), SizeIs(1)) << "of a life that another chief knew";
}

TEST_F(ChiefRoleTest, NothingHappensAfterItsExit) {
  StartRunning();
  TrainAndEvaluate();
  SayGoodbye();
  cluster->Forget();
  cluster->Wait(1s);
  cluster->Say(PeerId{99}, StatusRequest{});
  EXPECT_THAT(cluster->effects, IsEmpty());
}

}  // namespace
}  // namespace downpour
