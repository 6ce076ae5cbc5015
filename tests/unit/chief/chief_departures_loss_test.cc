// How the end of a ps that was told to stop counts: as one in good order, or as a loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "chief/recovery.h"
#include "tests/unit/chief/chief_departures_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(ChiefDeparturesTest, OneThatLeftInGoodOrderIsNoLoss) {
  StartRunning();
  for (int i = 0; i <= Recovery::kMostLosses; ++i) {
    cluster->Forget();
    LetGo(1);
    Leave(1);
    EXPECT_EQ(cluster->TaskStatus("ps-1")["state"], "LEFT");
    EXPECT_THAT(Failures(), HasSubstr("it left: ended by SIGTERM; its chief let it go"));
    Succeed(1);
    cluster->Wait(2s);
    ASSERT_EQ(cluster->role->state(), JobState::kRunning);
    EXPECT_THAT(cluster->Status()["pending"], IsEmpty());
  }
  EXPECT_EQ(cluster->Status()["recovery"]["psLost"], 0);
  EXPECT_THAT(Failures(), Not(HasSubstr("abandoned")));
}

TEST_F(ChiefDeparturesTest, AGoodbyeThatWasLostIsNoCrashEitherUnlessItStayedForLong) {
  for (const Duration stays : {Duration::zero(), Timing{}.dead_after}) {
    StartRunning();
    LetGo(1);
    cluster->Wait(stays);
    cluster->ps[1].alive = false;
    cluster->Wait(6s);
    EXPECT_THAT(Failures(), HasSubstr("no heartbeat for 5.0 s; it had been told to stop (SIGTERM) and let go"));
    Succeed(1);
    cluster->Wait(2s);
    EXPECT_EQ(cluster->Status()["recovery"]["psLost"], stays == Duration::zero() ? 0 : 1);
  }
}

// What was said meanwhile is read before the clock is.
TEST_F(ChiefDeparturesTest, OneThatLeftWhileTheChiefStoodStillIsNoLoss) {
  StartRunning();
  LetGo(1);
  cluster->now += 60s;
  cluster->Beat(cluster->ps[1]);
  Leave(1);
  Succeed(1);
  cluster->Wait(2s);
  EXPECT_EQ(cluster->Status()["recovery"]["psLost"], 0);
}

TEST_F(ChiefDeparturesTest, HowOneEndedThatMightLeaveIsTold) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->ps[1].join.launcher = "run";
  cluster->Start();
  cluster->RunToRunning();
  LetGo(1);
  ++cluster->ps[1].join.attempt;  // its launcher saw it die
  Succeed(1);
  EXPECT_THAT(Failures(), HasSubstr("it was started again; it had been told to stop (SIGTERM) and let go"));
}

TEST_F(ChiefDeparturesTest, OneThatCouldNotWaitAnyLongerIsALoss) {
  StartRunning();
  cluster->ps[0].answers_snapshots = false;
  Tell(1);
  cluster->Wait(3s);
  ASSERT_FALSE(MayLeave(1));
  Leave(1);
  EXPECT_THAT(Failures(), HasSubstr("it left: ended by SIGTERM"));
  Succeed(1);
  cluster->Wait(2s);
  EXPECT_EQ(cluster->Status()["recovery"]["psLost"], 1);
}

TEST_F(ChiefDeparturesTest, ThePlaceOfOneThatLeftIsKeptForServerWait) {
  StartRunning({"timing.serverWait=60s"});
  for (const int index : {0, 1}) Tell(index);
  cluster->Wait(3s);
  for (const int index : {0, 1}) Leave(index);
  cluster->Wait(55s);
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
  cluster->Wait(10s);
  EXPECT_EQ(cluster->role->state(), JobState::kFailed);
  const std::string error = cluster->Status()["errorMessage"];
  EXPECT_THAT(error, HasSubstr("its chief let it go; nobody came in its place for 60 s"));
  EXPECT_THAT(error, HasSubstr("The last checkpoint is checkpoints/1-1"));
}

}  // namespace
}  // namespace downpour
