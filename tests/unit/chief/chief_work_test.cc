// Members, leases and evaluation through Step alone, with hand-made messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/chief/chief_harness.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class ChiefWorkTest : public ::testing::Test {
 protected:
  void StartRunning(const std::vector<std::string>& overrides = {}) {
    cluster = std::make_unique<ChiefHarness>(SmallJob(overrides));
    cluster->Start();
    cluster->RunToRunning();
    a = &cluster->worker[0];
    b = &cluster->worker[1];
  }
  std::vector<LeaseId> HeldBy(const FakeMember& worker) const {
    std::vector<LeaseId> held;
    for (const auto& [lease, holder] : cluster->role->holders()) {
      if (holder == worker.id) held.push_back(lease);
    }
    return held;
  }
  bool IsCommitted(LeaseId lease) const { return cluster->role->committed().Contains(ToNumber(lease)); }
  std::unique_ptr<ChiefHarness> cluster;
  FakeMember* a = nullptr;
  FakeMember* b = nullptr;
};

// ---- Members --------------------------------------------------------------------------------------------------------

TEST_F(ChiefWorkTest, OfTwoWorkersOfOneNameTheSecondWaits) {
  StartRunning();
  Join twin = a->join;
  twin.nonce = 4242;
  cluster->Say(kStranger, twin);
  ASSERT_THAT(cluster->Sent<Refused>(kStranger), SizeIs(1));
  EXPECT_EQ(cluster->Sent<Refused>(kStranger)[0].code, RefusalCode::kNameTaken);
  EXPECT_FALSE(cluster->Sent<Refused>(kStranger)[0].for_good);
  a->alive = false;
  cluster->Wait(6s);
  cluster->Say(kStranger, twin);
  ASSERT_THAT(cluster->Sent<Welcome>(kStranger), SizeIs(1));
  EXPECT_EQ(cluster->Sent<Welcome>(kStranger)[0].name, "worker-0");
}

TEST_F(ChiefWorkTest, AWelcomeCarriesWhatAWorkerNeeds) {
  StartRunning();
  const Welcome welcome = cluster->Sent<Welcome>(*a)[0];
  EXPECT_EQ(welcome.term, 1u);
  EXPECT_EQ(welcome.name, "worker-0");
  EXPECT_EQ(welcome.job, CanonicalJob(SmallJob()));
  cluster->Say(a->control, a->join);
  EXPECT_EQ(cluster->Sent<Welcome>(*a).back().you, welcome.you) << "the same process is the same member";
}

TEST_F(ChiefWorkTest, OneThatWasHeldForDeadIsToldSoAndJoinsAnew) {
  StartRunning();
  const LeaseId lease = cluster->Ask(*a, 1)[0];
  const Incarnation before = a->id;
  a->alive = false;
  cluster->Wait(6s);
  cluster->Beat(*a);
  ASSERT_THAT(cluster->Sent<Refused>(*a), SizeIs(1));
  EXPECT_EQ(cluster->Sent<Refused>(*a)[0].code, RefusalCode::kUnknown);
  EXPECT_EQ(cluster->Sent<Refused>(*a)[0].member, before);
  cluster->JoinWorker(0);
  EXPECT_NE(a->id, before);
  EXPECT_THAT(HeldBy(*a), IsEmpty());
  EXPECT_THAT(cluster->Ask(*b, 1), ElementsAre(lease));
}

// What it held when it asked may have been committed, opened again and granted since.
TEST_F(ChiefWorkTest, ARequestThatWasOvertakenCountsNoMore) {
  StartRunning();
  const LeaseId lease = cluster->Ask(*a, 1)[0];
  cluster->Ask(*a, 0, {lease});
  const WorkRequest late{a->id, {LeaseId{3}}, 2, a->work_requests};
  cluster->Ask(*a, 0, {lease});
  cluster->Forget();
  cluster->Say(a->control, late);
  EXPECT_THAT(cluster->Sent<Grant>(*a), IsEmpty());
  EXPECT_THAT(HeldBy(*a), ElementsAre(lease));
  EXPECT_THAT(cluster->Status()["tasks"].dump(), Not(HasSubstr("\"rejected\":1"))) << "no offence";
}

TEST_F(ChiefWorkTest, DifferingDataIsRefusedByName) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->Start();
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  cluster->ReportData(cluster->JoinWorker(0));
  FakeMember& other = cluster->JoinWorker(1);
  cluster->ReportData(other, ChiefHarness::kFingerprint + 1);
  ASSERT_THAT(cluster->Sent<Refused>(other), SizeIs(1));
  EXPECT_EQ(cluster->Sent<Refused>(other)[0].code, RefusalCode::kDataDiffers);
  EXPECT_TRUE(cluster->Sent<Refused>(other)[0].for_good);
  EXPECT_THAT(cluster->Sent<Refused>(other)[0].why, HasSubstr("worker-1 has other data than worker-0"));
  cluster->Say(other.control, WorkRequest{other.id, {}, 2, 1});
  EXPECT_THAT(cluster->Sent<Grant>(other), IsEmpty());
  EXPECT_EQ(cluster->TaskStatus("worker-1")["state"], "REFUSED");
  EXPECT_EQ(cluster->Status()["pending"].back()["task"], "worker-1");
  EXPECT_THAT(cluster->Status()["pending"].back()["why"], testing::StartsWith("has other data than worker-0"));
  EXPECT_EQ(cluster->role->state(), JobState::kRunning) << "the others go on";
}

TEST_F(ChiefWorkTest, IfNoWorkerHasTheDataTheJobFails) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->Start();
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  for (int i = 0; i < 2; ++i) {
    FakeMember& worker = cluster->JoinWorker(i);
    EXPECT_NE(cluster->role->state(), JobState::kFailed);
    cluster->Say(worker.control, DataReport{worker.id, 0, 0, 0, "a: no such file"});
  }
  EXPECT_EQ(cluster->role->state(), JobState::kFailed);
  EXPECT_THAT(cluster->Status()["errorMessage"], HasSubstr("worker-0 cannot prepare for the job: a: no such file"));
}

TEST_F(ChiefWorkTest, AWorkerThatBrokeTheProtocolIsEjected) {
  StartRunning();
  const LeaseId lease = cluster->Ask(*a, 1)[0];
  cluster->Say(cluster->ps[0].control, Violation{cluster->ps[0].id, a->id, "a push of 3 values for a slice of 12"});
  ASSERT_THAT(cluster->Sent<Refused>(*a), SizeIs(1));
  EXPECT_EQ(cluster->Sent<Refused>(*a)[0].code, RefusalCode::kEjected);
  EXPECT_THAT(cluster->Sent<Refused>(*a)[0].why, HasSubstr("a push of 3 values"));
  cluster->Beat(*a);
  EXPECT_THAT(cluster->Sent<Refused>(*a), SizeIs(2)) << "it did not hear the first";
  cluster->Say(a->control, a->join);
  EXPECT_EQ(cluster->Sent<Refused>(*a).back().code, RefusalCode::kEjected);
  cluster->Say(a->control, cluster->Evidence(*a, lease));
  EXPECT_FALSE(IsCommitted(lease)) << "its word counts no more";
  EXPECT_THAT(cluster->Ask(*b, 1), ElementsAre(lease));
}

TEST_F(ChiefWorkTest, LogLinesAreKeptAndSaidToBe) {
  StartRunning();
  cluster->Beat(*a, {"I one", "I two"});
  EXPECT_THAT(cluster->disk->At("logs/worker-0.log"), HasSubstr("I one\nI two\n"));
  cluster->Beat(*a, {"I one", "I two"});
  EXPECT_EQ(cluster->Sent<HeartbeatReply>(*a).back().log_kept, 2u);
}

// ---- Leases ---------------------------------------------------------------------------------------------------------

TEST_F(ChiefWorkTest, ADeadWorkersLeasesAreHandedOnAndItsLateWordIsJudgedByItsEvidence) {
  StartRunning();
  ASSERT_THAT(cluster->Ask(*a, 6), SizeIs(6));
  EXPECT_THAT(cluster->Ask(*b, 2), IsEmpty());
  const LeaseDone late = cluster->Evidence(*a, LeaseId{0});
  cluster->Forget();
  a->alive = false;
  cluster->Wait(6s);
  EXPECT_THAT(HeldBy(*a), IsEmpty());
  EXPECT_THAT(HeldBy(*b), ElementsAre(LeaseId{0}, LeaseId{1})) << "at once to whom was waiting";
  EXPECT_THAT(cluster->Sent<Grant>(*b), SizeIs(2));
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("6 leases handed on"));

  LeaseDone stale = late;
  stale.evidence[1].epoch = {1, 0};
  cluster->Say(a->control, stale);
  EXPECT_FALSE(IsCommitted(LeaseId{0}));
  ASSERT_THAT(cluster->Sent<LeaseDoneReply>(*a), SizeIs(1));
  EXPECT_FALSE(cluster->Sent<LeaseDoneReply>(*a)[0].committed);

  cluster->Apply(LeaseId{0});
  cluster->Say(a->control, late);
  EXPECT_TRUE(IsCommitted(LeaseId{0})) << "the slices have it, whoever says so";
  EXPECT_THAT(HeldBy(*b), ElementsAre(LeaseId{1}));
  cluster->Finish(*b, LeaseId{0});
  EXPECT_TRUE(cluster->Sent<LeaseDoneReply>(*b).back().committed) << "its own work was for nothing, and harmless";
}

TEST_F(ChiefWorkTest, DoneSaidTwiceCountsOnceAndIsAnsweredTwice) {
  StartRunning();
  const LeaseId lease = cluster->Ask(*a, 1)[0];
  cluster->Finish(*a, lease);
  cluster->Finish(*a, lease);
  EXPECT_THAT(cluster->Sent<LeaseDoneReply>(*a), SizeIs(2));
  EXPECT_EQ(cluster->Status()["progress"]["examplesCommitted"], 4);
  EXPECT_EQ(cluster->Status()["progress"]["leasesCommitted"], 1);
  const auto committed = [](const Effect& effect) {
    const auto* trace = std::get_if<TraceRecord>(&effect);
    return trace != nullptr && trace->kind == TraceRecord::Kind::kCommitted;
  };
  EXPECT_EQ(std::count_if(cluster->effects.begin(), cluster->effects.end(), committed), 1);
}

TEST_F(ChiefWorkTest, AGrantThatWasLostIsSaidAgain) {
  StartRunning();
  const std::vector<LeaseId> leases = cluster->Ask(*a, 2);
  EXPECT_EQ(cluster->Ask(*a, 2), leases);
  EXPECT_THAT(cluster->Ask(*a, 0, leases), IsEmpty());
  EXPECT_EQ(HeldBy(*a), leases);
}

TEST_F(ChiefWorkTest, AWorkerThatLeavesHandsItsLeasesBack) {
  StartRunning();
  ASSERT_THAT(cluster->Ask(*a, 6), SizeIs(6));
  cluster->Ask(*b, 2);
  cluster->Say(a->control, Leave{a->id, "ended by SIGTERM"});
  EXPECT_THAT(HeldBy(*b), SizeIs(2));
  EXPECT_EQ(cluster->TaskStatus("worker-0")["state"], "LEFT");
}

TEST_F(ChiefWorkTest, AWorkerThatLeavesUntoldHasFailedAndItsReasonIsListed) {
  StartRunning();
  cluster->Ask(*a, 2);
  const std::string why = "the Python code: ValueError: of three, at trainer/task.py:9, in fails";
  cluster->Say(a->control, Leave{a->id, why});
  EXPECT_EQ(cluster->TaskStatus("worker-0")["state"], "LEFT");
  ASSERT_THAT(cluster->Status()["failures"], SizeIs(1));
  EXPECT_EQ(cluster->Status()["failures"][0]["task"], "worker-0");
  EXPECT_EQ(cluster->Status()["failures"][0]["what"], "it left: " + why + "; 2 leases handed on");
  EXPECT_EQ(cluster->Status()["recovery"]["workersLost"], 1);
}

TEST_F(ChiefWorkTest, AWorkerThatLeavesAsItWasToldIsNoFailure) {
  StartRunning();
  cluster->Say(a->control, Heartbeat{.from = a->id, .stats = {}, .log_lines = {}, .leaving = "SIGTERM"});
  cluster->Say(a->control, Leave{a->id, "ended by SIGTERM"});
  EXPECT_THAT(cluster->Status()["failures"], IsEmpty());
  EXPECT_EQ(cluster->Status()["recovery"]["workersLost"], 0);
}

TEST_F(ChiefWorkTest, ARestartedWorkerReplacesItsFormerSelfAtOnce) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->worker[0].join.launcher = "run-1";
  cluster->Start();
  cluster->RunToRunning();
  a = &cluster->worker[0];
  b = &cluster->worker[1];
  ASSERT_THAT(cluster->Ask(*a, 6), SizeIs(6));
  cluster->Ask(*b, 1);
  a->join.nonce = 4242;
  a->join.attempt = 1;
  cluster->JoinWorker(0);
  EXPECT_THAT(HeldBy(*b), SizeIs(1));
  EXPECT_EQ(cluster->TaskStatus("worker-0")["attempt"], 1);
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("was started again"));
}

// ---- Evaluation -----------------------------------------------------------------------------------------------------

// A lease of sync is one step, and as many parts would be granted again and again.
TEST_F(ChiefWorkTest, APartOfAnEvaluationIsNoShorterWithSync) {
  StartRunning({"training.leaseBatches=", "training.consistency=sync", "training.epochs=1"});
  cluster->FinishAll(*a);
  EXPECT_THAT(cluster->Sent<EvalGrant>(*a), SizeIs(1));
}

TEST_F(ChiefWorkTest, AnEpochsEndIsEvaluatedByOneWorker) {
  StartRunning();
  const std::vector<LeaseId> leases = cluster->Ask(*a, 4);
  for (size_t i = 0; i < 2; ++i) cluster->Finish(*a, leases[i]);
  cluster->Ask(*b, 1);
  EXPECT_THAT(cluster->Sent<EvalGrant>(*b), IsEmpty()) << "not before the epoch is whole";
  cluster->Finish(*a, leases[2]);
  cluster->Ask(*b, 1, {LeaseId{4}});
  EXPECT_THAT(cluster->Sent<EvalGrant>(*b), SizeIs(2));
  cluster->Ask(*a, 1, {LeaseId{3}});
  EXPECT_THAT(cluster->Sent<EvalGrant>(*a), IsEmpty());
  cluster->Evaluate(*b);
  const nlohmann::json evaluation = cluster->Status()["evaluation"];
  EXPECT_EQ(evaluation["epoch"], 1);
  EXPECT_EQ(evaluation["loss"], 0.5);
  EXPECT_EQ(evaluation["accuracy"], 0.5);
  EXPECT_EQ(evaluation["examples"], 10);
  EXPECT_EQ(evaluation["newestVersion"], 4);
  EXPECT_THAT(cluster->Sent<EvalDoneReply>(*b), SizeIs(3));
}

TEST_F(ChiefWorkTest, ADeadEvaluatorsRoundIsDoneByAnother) {
  StartRunning();
  for (const LeaseId lease : cluster->Ask(*a, 3)) cluster->Finish(*a, lease);
  cluster->Ask(*a, 1);
  ASSERT_THAT(cluster->Sent<EvalGrant>(*a), SizeIs(2));
  a->alive = false;
  cluster->Wait(6s);
  cluster->Ask(*b, 1);
  cluster->Evaluate(*b);
  EXPECT_EQ(cluster->Status()["evaluation"]["examples"], 10);
}

// A slow evaluator would never end a round if each epoch began a new one.
TEST_F(ChiefWorkTest, ARoundUnderWayIsNotReplacedByTheNextEpochs) {
  StartRunning({"training.epochs=4"});
  for (const LeaseId lease : cluster->Ask(*a, 3)) cluster->Finish(*a, lease);
  cluster->Ask(*b, 1);
  ASSERT_THAT(cluster->Sent<EvalGrant>(*b), SizeIs(2));
  for (const LeaseId lease : cluster->Ask(*a, 2)) cluster->Finish(*a, lease);
  cluster->Finish(*b, LeaseId{3});
  ASSERT_TRUE(cluster->role->committed().CoversRange(0, 6));
  cluster->Evaluate(*b);
  const std::vector<EvalGrant> grants = cluster->Sent<EvalGrant>(*b);
  ASSERT_GE(grants.size(), 3u);
  EXPECT_EQ(grants[2].round, grants[0].round) << "its third part";
}

TEST_F(ChiefWorkTest, GrantsOfEvaluationAreRepeatedUntilAnswered) {
  StartRunning();
  for (const LeaseId lease : cluster->Ask(*a, 3)) cluster->Finish(*a, lease);
  cluster->Ask(*a, 1);
  cluster->Forget();
  cluster->Wait(1s);
  EXPECT_THAT(cluster->Sent<EvalGrant>(*a), SizeIs(4)) << "two parts, twice";
}

TEST_F(ChiefWorkTest, FrozenValuesAreEvaluatedByAllWhoAreIdle) {
  StartRunning();
  const std::vector<LeaseId> leases = cluster->Ask(*a, 6);
  cluster->Ask(*b, 2);
  for (size_t i = 0; i < 3; ++i) cluster->Finish(*a, leases[i]);
  cluster->Evaluate(*b);
  cluster->Forget();
  for (size_t i = 3; i < 6; ++i) cluster->Finish(*a, leases[i]);
  EXPECT_THAT(cluster->Sent<EvalGrant>(*b), SizeIs(2)) << "it was waiting, and need not ask again";
  cluster->Ask(*a, 2);
  EXPECT_THAT(cluster->Sent<EvalGrant>(*a), SizeIs(1));
}

TEST_F(ChiefWorkTest, WithoutEvaluationDataTheJobEndsWithItsCheckpoint) {
  JobSpec job = SmallJob();
  job.data.eval = {};
  cluster = std::make_unique<ChiefHarness>(job);
  cluster->Start();
  cluster->RunToRunning();
  cluster->FinishAll(cluster->worker[0]);
  EXPECT_EQ(cluster->role->state(), JobState::kSucceeded);
  EXPECT_FALSE(cluster->Status().contains("evaluation"));
}

TEST_F(ChiefWorkTest, EvaluationMayBeLeftToTheEnd) {
  StartRunning({"training.evaluateEveryEpochs=0"});
  for (const LeaseId lease : cluster->Ask(*a, 3)) cluster->Finish(*a, lease);
  cluster->Ask(*a, 1);
  EXPECT_THAT(cluster->Sent<EvalGrant>(*a), IsEmpty());
}

}  // namespace
}  // namespace downpour
