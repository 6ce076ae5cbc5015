// Leases that are open again once the rest of the program has begun: a ps was lost, and with it the only good record of
// its slices.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/unit/chief/epilogue_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class EpilogueReopenedTest : public EpilogueTest {
 protected:
  void Reopen() {
    TrainByTwoRounds();
    DamageTheNewestRound();
    cluster->Ask(first(), 0);  // its program runs
    ReplacePs();
    cluster->Wait(1s);
    ASSERT_FALSE(IsTrained());
    cluster->Forget();
  }
  void TrainAgain(FakeMember& worker) {
    cluster->FinishAll(worker);
    cluster->Ask(worker, 2);
    cluster->Evaluate(worker);
    cluster->Wait(6s);
  }
};

TEST_F(EpilogueReopenedTest, TheyAreInACheckpointBeforeTheJobEnds) {
  Reopen();
  Say(first(), uint64_t{1} << 32 | 1);
  cluster->Wait(1s);
  EXPECT_EQ(State(), "RUNNING");
  TrainAgain(second());
  EXPECT_EQ(State(), "SUCCEEDED");
  EXPECT_TRUE(cluster->disk->Has(ManifestPath({1, 3})));
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(second()), IsEmpty()) << "it has run";
}

TEST_F(EpilogueReopenedTest, AProgramThatRunsMeanwhileCounts) {
  Reopen();
  TrainAgain(second());
  EXPECT_EQ(State(), "RUNNING");
  EXPECT_EQ(Attempt(first()), uint64_t{1} << 32 | 1);
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(second()), IsEmpty());
  Say(first(), Attempt(first()));
  EXPECT_EQ(State(), "SUCCEEDED");
}

TEST_F(EpilogueReopenedTest, NoOtherAttemptBeginsMeanwhile) {
  Reopen();
  cluster->Say(first().control, Leave{first().id, "its process was killed"});
  cluster->Wait(2 * Epilogue::kWaitsForFirst);
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(second()), IsEmpty());
  TrainAgain(second());
  ASSERT_THAT(cluster->Sent<EpilogueGrant>(second()), Not(IsEmpty()));
  cluster->Say(second().control, RecordRequest{second().id, Attempt(second()), SliceId{0}});
  const auto sent = cluster->Sent<RestoreSlice>(second());
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_GT(sent[0].round, (Round{1, 2}));
}

// Its newest record may be damaged, and nobody knows yet.
TEST_F(EpilogueReopenedTest, ASliceThatIsBeingRestoredIsWaitedFor) {
  TrainByTwoRounds();
  DamageTheNewestRound();
  cluster->Ask(first(), 0);
  cluster->ps[1].answers_assign = false;
  ReplacePs();
  cluster->Wait(1s);
  Say(first(), Attempt(first()));
  cluster->Wait(1s);
  EXPECT_EQ(State(), "RUNNING");
  cluster->ps[1].answers_assign = true;
  cluster->Wait(std::chrono::minutes(1));
  EXPECT_FALSE(IsTrained());
  EXPECT_EQ(State(), "RUNNING");
  TrainAgain(second());
  EXPECT_EQ(State(), "SUCCEEDED");
}

TEST_F(EpilogueReopenedTest, AServerThatIsGoneEndsTheJobOnceMore) {
  Reopen();
  cluster->ps[0].alive = false;
  cluster->Wait(std::chrono::minutes(30));
  EXPECT_EQ(State(), "FAILED");
  EXPECT_THAT(Error(), HasSubstr("nobody came in its place"));
}

TEST_F(EpilogueReopenedTest, ASecondEvaluationThatIsNoNumberFailsTheJob) {
  Reopen();
  cluster->FinishAll(second());
  cluster->Wait(6s);
  cluster->Ask(second(), 2);
  cluster->evaluated_loss = std::nan("");
  cluster->Evaluate(second());
  EXPECT_EQ(State(), "FAILED");
  EXPECT_THAT(Error(), HasSubstr("not finite"));
}

TEST_F(EpilogueReopenedTest, WhatTheProgramRaisesMeanwhileFailsTheJob) {
  Reopen();
  Say(first(), uint64_t{1} << 32 | 1, "ValueError: no room");
  EXPECT_EQ(State(), "FAILED");
  EXPECT_THAT(Error(), HasSubstr("ValueError: no room"));
}

// The chief before knew the evaluation of the final values, and this one has begun the program with them.
TEST_F(EpilogueReopenedTest, ARecalledEvaluationIsMadeAgain) {
  TrainByTwoRounds();
  Restart(job_);
  cluster->RunToRunning();
  cluster->Wait(6s);
  ASSERT_THAT(cluster->Sent<EpilogueGrant>(first()), Not(IsEmpty()));
  for (const Round round : {Round{1, 2}, Round{2, 1}}) {
    cluster->disk->At(ShardPath(round, "ps-1.shard"))[40] ^= 1;
  }
  cluster->Ask(first(), 0);
  ReplacePs();
  cluster->Wait(1s);
  ASSERT_FALSE(IsTrained());
  const uint64_t attempt = Attempt(first());
  cluster->Forget();
  cluster->FinishAll(second());
  cluster->Ask(second(), 2);
  EXPECT_THAT(cluster->Sent<EvalGrant>(second()), Not(IsEmpty()));
  cluster->Wait(6s);
  Say(first(), attempt);
  EXPECT_EQ(State(), "RUNNING") << "the values that the job ends with are not evaluated";
  cluster->Evaluate(second());
  cluster->Wait(1s);
  EXPECT_EQ(State(), "SUCCEEDED");
}

// The evaluation that a later chief knew was of leases that are open again.
TEST_F(EpilogueReopenedTest, WhatIsComputedAgainIsEvaluatedAgain) {
  job_.checkpoint.every = 5s;
  Begin();
  cluster->Finish(first(), cluster->Ask(first(), 1).at(0));
  cluster->Wait(6s);
  ASSERT_TRUE(cluster->disk->Has(ManifestPath({1, 1})));
  TrainAndEvaluate();
  cluster->Wait(6s);
  ASSERT_THAT(cluster->Sent<EpilogueGrant>(first()), Not(IsEmpty()));
  cluster->disk->At(ShardPath({1, 2}, "ps-1.shard"))[40] ^= 1;
  Restart(job_);
  cluster->ps[1].answers_snapshots = false;  // this chief has no round of its own
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  cluster->ReportData(cluster->JoinWorker(1));  // the one that had it is waited for
  cluster->Wait(1s);
  ASSERT_TRUE(cluster->role->committed().CoversRange(0, 6)) << "a later chief knows all of it done";
  cluster->Say(cluster->ps[1].control, Leave{cluster->ps[1].id, "killed"});
  cluster->ps[1].slices.clear();
  cluster->ps[1].join.was = Incarnation::kNone;
  cluster->ps[1].join.nonce += 1000;
  cluster->JoinPs(1).answers_snapshots = true;
  cluster->Wait(5s);
  cluster->ReportData(cluster->JoinWorker(0));
  cluster->Wait(5s);
  ASSERT_FALSE(cluster->role->committed().CoversRange(0, 6)) << "its newest record was damaged";
  EXPECT_THAT(cluster->Sent<EpilogueGrant>(first()), IsEmpty());
  cluster->FinishAll(first());
  cluster->Ask(first(), 2);
  EXPECT_THAT(cluster->Sent<EvalGrant>(first()), Not(IsEmpty()));
}

// It trained them and died before it had evaluated: the evaluation in the journal is of the values before.
TEST_F(EpilogueReopenedTest, AChiefAfterOneThatTrainedThemEvaluatesThem) {
  TrainByTwoRounds();
  DamageTheNewestRound();
  cluster->ps[1].slices.clear();
  Restart(job_);
  cluster->ps[1].join.was = Incarnation::kNone;
  cluster->ps[1].join.nonce += 1000;
  cluster->RunToRunning();
  ASSERT_FALSE(IsTrained());
  cluster->FinishAll(second());
  ASSERT_TRUE(IsTrained());
  Restart(job_);
  cluster->RunToRunning();
  ASSERT_TRUE(IsTrained());
  cluster->Ask(second(), 2);
  EXPECT_THAT(cluster->Sent<EvalGrant>(second()), Not(IsEmpty()));
}

}  // namespace
}  // namespace downpour
