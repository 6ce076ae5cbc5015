// Those who look on are told how the job ended before its chief exits.
#include <gmock/gmock.h>

#include "chief/known/watchers.h"
#include "chief/lifecycle.h"
#include "chief/shutdown.h"
#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ChiefEndTest : public ChiefRoleTest {
 protected:
  static constexpr PeerId kOnlooker{static_cast<uint64_t>(PeerId::kFirstAccepted) + 500};
  void AskAsWatcher() { cluster->Say(kOnlooker, StatusRequest{.again_in_ms = 1000}); }
  void EndWithMembersGone() {
    TrainAndEvaluate();
    cluster->Forget();
    SayGoodbye();
  }
  nlohmann::json LastStatus() { return nlohmann::json::parse(cluster->Sent<StatusReply>(kOnlooker).back().json); }
};

TEST_F(ChiefEndTest, MembersOfAStoppedJobAreToldThatNothingFailed) {
  StartRunning();
  cluster->Stop(15);
  cluster->Wait(Lifecycle::kLastRound + 1s);
  for (const FakeMember* member : {&cluster->ps[0], &cluster->worker[0]}) {
    ASSERT_THAT(cluster->Sent<JobEnd>(*member), Not(IsEmpty()));
    EXPECT_TRUE(cluster->Sent<JobEnd>(*member)[0].cancelled);
    EXPECT_FALSE(cluster->Sent<JobEnd>(*member)[0].succeeded);
  }
}

TEST_F(ChiefEndTest, WhatNoLastCheckpointHoldsIsCounted) {
  StartRunning({"checkpoint.every=0s"});
  for (int i = 0; i < 3; ++i) {
    const LeaseId lease = cluster->Ask(cluster->worker[0], 1).at(0);
    cluster->Apply(lease);
    cluster->Say(cluster->worker[0].control, cluster->Evidence(cluster->worker[0], lease));
  }
  cluster->ps[0].answers_snapshots = false;
  cluster->Stop(15);
  cluster->Wait(Lifecycle::kLastRound + 1s);
  ASSERT_THAT(cluster->Sent<JobEnd>(cluster->ps[0]), Not(IsEmpty()));
  EXPECT_THAT(cluster->Sent<JobEnd>(cluster->ps[0])[0].why,
              HasSubstr("; no last checkpoint was written: 3 committed leases will be computed again. There is no"));
}

// The chief before this one had placed nothing either: no ps holds what no checkpoint has.
TEST_F(ChiefEndTest, AJobThatNeverPlacedASliceEndsAtOnce) {
  ChiefHarness first(SmallJob(), false);
  first.Start();
  first.JoinPs(0);
  cluster = std::make_unique<ChiefHarness>(SmallJob(), false, first.disk);
  cluster->Start();
  cluster->Stop(15);
  cluster->Wait(1s);
  EXPECT_EQ(cluster->Status()["recovery"]["chiefRestarts"], 1);
  EXPECT_EQ(cluster->role->state(), JobState::kCancelled);
}

TEST_F(ChiefEndTest, WhoeverWaitsForAPlaceIsTold) {
  StartRunning();
  Join spare = cluster->worker[0].join;
  spare.nonce = 4242;
  cluster->Say(kStranger, spare);
  cluster->Stop(15);
  cluster->Wait(1s);
  ASSERT_EQ(cluster->role->state(), JobState::kCancelled);
  SayGoodbye();
  ASSERT_THAT(cluster->Sent<JobEnd>(kStranger), Not(IsEmpty()));
  EXPECT_TRUE(cluster->Sent<JobEnd>(kStranger)[0].cancelled);
}

TEST_F(ChiefEndTest, AWatcherIsToldUnaskedUntilItKnows) {
  StartRunning();
  AskAsWatcher();
  EndWithMembersGone();
  EXPECT_FALSE(cluster->exit().has_value()) << "the watcher has not said that it knows";
  cluster->Wait(600ms);
  cluster->Forget();  // all of that was lost
  cluster->Wait(600ms);
  ASSERT_THAT(cluster->Sent<StatusReply>(kOnlooker), Not(IsEmpty()));
  EXPECT_EQ(LastStatus()["state"], "SUCCEEDED");
  EXPECT_EQ(LastStatus()["exitCode"], 0);
  cluster->Say(kOnlooker, StatusRequest{.knows_end = true});
  ASSERT_TRUE(cluster->exit().has_value());
  EXPECT_EQ(cluster->exit()->code, 0);
}

TEST_F(ChiefEndTest, AWatcherOutOfReachIsWaitedForFiveSeconds) {
  StartRunning();
  AskAsWatcher();
  EndWithMembersGone();
  cluster->Wait(Shutdown::kWatchersHear - 200ms);
  EXPECT_FALSE(cluster->exit().has_value());
  cluster->Wait(400ms);
  EXPECT_TRUE(cluster->exit().has_value());
}

TEST_F(ChiefEndTest, OneThatEndedLongBeforeIsNotWaitedFor) {
  StartRunning();
  AskAsWatcher();
  cluster->Wait(1s + Watchers::kOverdueAfter);
  EndWithMembersGone();
  cluster->Wait(100ms);
  EXPECT_TRUE(cluster->exit().has_value());
}

TEST_F(ChiefEndTest, WhoAskedOnceIsNotWaitedFor) {
  StartRunning();
  cluster->Say(kOnlooker, StatusRequest{});
  EndWithMembersGone();
  cluster->Wait(100ms);
  EXPECT_TRUE(cluster->exit().has_value());
  EXPECT_THAT(cluster->Sent<StatusReply>(kOnlooker), IsEmpty());
}

TEST_F(ChiefEndTest, AWatcherHearsThatTheTimeWasOver) {
  StartRunning({"scheduling.maxRunningTime=5s"});
  AskAsWatcher();
  cluster->Wait(5s);
  AskAsWatcher();
  cluster->Wait(1s);
  EXPECT_EQ(LastStatus()["state"], "CANCELLED");
  EXPECT_EQ(LastStatus()["exitCode"], 124);
}

}  // namespace
}  // namespace downpour
