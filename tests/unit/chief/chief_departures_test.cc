// A ps that is told to stop: it may leave once a checkpoint round that began after its word is durable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <variant>

#include "tests/unit/chief/chief_departures_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(ChiefDeparturesTest, MayLeaveOnceAnUrgentRoundBegunAfterItsWordIsDurable) {
  StartRunning();
  cluster->ps[1].answers_snapshots = false;
  Tell(1);
  cluster->Wait(1s);
  const auto asked = cluster->Sent<SnapshotRequest>(cluster->ps[1].bulk);
  ASSERT_THAT(asked, Not(IsEmpty())) << "at once, though the next one was due in 9 s";
  EXPECT_TRUE(asked[0].urgent);
  EXPECT_FALSE(MayLeave(1)) << "its record is not there";
  cluster->ps[1].answers_snapshots = true;
  cluster->Wait(3s);
  EXPECT_TRUE(Durable("1-1"));
  EXPECT_TRUE(MayLeave(1));
  EXPECT_FALSE(MayLeave(0)) << "nobody told it to stop";
}

TEST_F(ChiefDeparturesTest, ARoundUnderWayDoesNotCountAndMakesRoom) {
  StartRunning();
  cluster->ps[0].answers_snapshots = false;
  cluster->Wait(10s);
  ASSERT_EQ(RoundsAsked(), 1u);
  Tell(1);
  cluster->ps[0].answers_snapshots = true;
  cluster->Wait(2s);
  EXPECT_FALSE(Durable("1-1"));
  EXPECT_TRUE(Durable("1-2"));
  EXPECT_TRUE(MayLeave(1));
  EXPECT_EQ(cluster->Status()["checkpoint"]["lastError"], "") << "it was not given up for a fault";
}

TEST_F(ChiefDeparturesTest, ADurableRoundOfBeforeDoesNotCount) {
  StartRunning();
  cluster->Wait(11s);
  ASSERT_TRUE(Durable("1-1"));
  cluster->ps[0].answers_snapshots = false;
  Tell(1);
  cluster->Wait(2s);
  EXPECT_FALSE(MayLeave(1));
}

TEST_F(ChiefDeparturesTest, ThoseToldAtOnceShareARound) {
  StartRunning();
  Tell(0);
  cluster->Wait(200ms);
  Tell(1);
  cluster->Wait(3s);
  EXPECT_TRUE(MayLeave(0));
  EXPECT_TRUE(MayLeave(1));
  EXPECT_EQ(RoundsAsked(), 1u);
}

// A ps is told just as the round for another is due, so that the Tick that would begin it counts the word first.
// Whether another message comes in between is up to when the members beat.
TEST_F(ChiefDeparturesTest, OneMoreWordDoesNotPutOffARoundThatIsDue) {
  const Timing timing;
  for (Duration since_beat{}; since_beat < timing.heartbeat; since_beat += timing.tick) {
    StartRunning();
    cluster->Wait(since_beat);
    Tell(0);
    cluster->Wait(timing.heartbeat);
    Tell(1);
    cluster->Wait(50ms);
    EXPECT_EQ(RoundsAsked(), 1u);
  }
}

// A round needs the ps of every slice: one that left would keep the other's from its end.
TEST_F(ChiefDeparturesTest, NoneGoesBeforeAnotherThatWaits) {
  StartRunning();
  cluster->ps[1].answers_snapshots = false;
  Tell(0);
  cluster->Wait(1s);
  ASSERT_EQ(RoundsAsked(), 1u);
  Tell(1);
  cluster->disk_hangs = true;
  cluster->ps[1].answers_snapshots = true;
  cluster->Wait(3s);
  cluster->LetDiskGoOn();
  cluster->Wait(20ms);
  ASSERT_TRUE(Durable("1-1")) << "it was not dropped for the second word: the first one waits for it";
  EXPECT_FALSE(MayLeave(0));
  cluster->Wait(3s);
  EXPECT_TRUE(Durable("1-2"));
  EXPECT_TRUE(MayLeave(0));
  EXPECT_TRUE(MayLeave(1));
}

TEST_F(ChiefDeparturesTest, OneWhoseTimeIsUpWaitsForNoOther) {
  StartRunning();
  cluster->ps[1].answers_snapshots = false;
  Tell(0);
  cluster->Wait(1s);
  Tell(1);
  cluster->disk_hangs = true;
  cluster->ps[1].answers_snapshots = true;
  cluster->Wait(3s);
  cluster->ps[1].answers_snapshots = false;  // its own round does not come to its end
  cluster->LetDiskGoOn();
  cluster->Wait(10s);
  ASSERT_TRUE(Durable("1-1"));
  EXPECT_FALSE(MayLeave(0));
  cluster->Wait(5s);
  EXPECT_TRUE(MayLeave(0));
  EXPECT_FALSE(MayLeave(1));
}

TEST_F(ChiefDeparturesTest, ARoundThatFailsIsTriedAgainSoonButNotAtOnce) {
  StartRunning();
  cluster->disk->fate = [](const StorageOp&) { return absl::ResourceExhaustedError("no space left"); };
  Tell(1);
  cluster->Wait(4s);
  EXPECT_EQ(cluster->Status()["failures"].size(), 1u) << Failures();
  EXPECT_FALSE(MayLeave(1));
  cluster->disk->fate = nullptr;
  cluster->Wait(3s);
  EXPECT_TRUE(MayLeave(1));
}

TEST_F(ChiefDeparturesTest, WithNothingTrainedItMayLeaveAtOnce) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->Start();
  cluster->JoinPs(0);
  Tell(0);
  cluster->Wait(1s);
  EXPECT_TRUE(MayLeave(0)) << "it has no slices yet";
  EXPECT_FALSE(Durable("1-1"));

  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->Start();
  cluster->ps[0].answers_assign = false;
  for (int i = 0; i < 2; ++i) cluster->JoinPs(i);
  cluster->ReportData(cluster->JoinWorker(0));
  Tell(1);
  cluster->Wait(1s);
  EXPECT_EQ(cluster->role->state(), JobState::kPreparing);
  EXPECT_TRUE(MayLeave(1)) << "it has only initial values";
}

TEST_F(ChiefDeparturesTest, NoRoundIsBegunThatItsLeavingWouldEnd) {
  StartRunning({"checkpoint.every=100ms"});
  Tell(1);
  cluster->Wait(2s);
  ASSERT_TRUE(MayLeave(1));
  cluster->Forget();
  cluster->ps[0].answers_snapshots = false;
  cluster->Wait(1s);
  EXPECT_EQ(RoundsAsked(), 0u);
  Leave(1);
  cluster->Wait(1s);
  EXPECT_THAT(Failures(), Not(HasSubstr("abandoned")));
}

TEST_F(ChiefDeparturesTest, OneThatStaysThoughItMightLeaveHoldsNobodyUp) {
  StartRunning({"checkpoint.every=1s"});
  LetGo(1);
  cluster->Forget();
  cluster->Wait(1s);
  EXPECT_EQ(RoundsAsked(), 0u);
  cluster->Wait(Timing{}.dead_after);
  EXPECT_GT(RoundsAsked(), 0u);
}

TEST_F(ChiefDeparturesTest, WhatKeepsRoundsFromBeingBegunIsToldAtOnce) {
  StartRunning();
  cluster->ps[0].alive = cluster->ps[0].answers_assign = false;
  cluster->Wait(Timing{}.dead_after + 1s);
  cluster->ps[1].stats.waiting_for = "a checkpoint of what it holds, to leave";
  Tell(1);
  cluster->Forget();
  cluster->Wait(2s);
  const auto says_so = [](const Effect& effect) {
    const Log* log = std::get_if<Log>(&effect);
    return log != nullptr && log->text.find("no checkpoint can be made while ps-0 is gone") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(cluster->effects.begin(), cluster->effects.end(), says_so), 1);
  EXPECT_THAT(Waits(), HasSubstr("was told to stop: SIGTERM; no checkpoint can be made while ps-0 is gone"));
  Succeed(0);
  cluster->Wait(1s);
  EXPECT_THAT(Waits(), HasSubstr("was told to stop: SIGTERM; no checkpoint can be made before ps-0 has its slices"));
  cluster->ps[0].answers_assign = true;
  cluster->Wait(3s);
  EXPECT_TRUE(MayLeave(1));
  EXPECT_THAT(Waits(), Not(HasSubstr("no checkpoint can be made")));
}

TEST_F(ChiefDeparturesTest, WhatKeepsRoundsFromBeingBegunIsNothingToOneThatMayLeave) {
  StartRunning();
  for (FakeMember& server : cluster->ps) server.stats.waiting_for = "to leave";
  LetGo(1);
  cluster->ps[0].alive = cluster->ps[0].answers_assign = false;
  cluster->Wait(Timing{}.dead_after + 1s);
  Succeed(0);
  cluster->Wait(1s);
  Tell(0);
  cluster->Wait(2s);
  EXPECT_THAT(Waits(), HasSubstr("was told to stop: SIGTERM; no checkpoint can be made before ps-0 has its slices"));
  EXPECT_THAT(Waits(), HasSubstr("\"task\":\"ps-1\",\"why\":\"was told to stop: SIGTERM\""));
}

TEST_F(ChiefDeparturesTest, NothingKeepsTheLastRoundFromBeingBegun) {
  StartRunning();
  cluster->ps[0].alive = cluster->ps[0].answers_snapshots = false;
  cluster->Wait(Timing{}.dead_after + 1s);
  cluster->ps[1].stats.waiting_for = "to leave";
  Tell(1);
  cluster->Wait(2s);
  ASSERT_THAT(Waits(), HasSubstr("no checkpoint can be made while ps-0 is gone"));
  cluster->ps[0].alive = true;
  cluster->Beat(cluster->ps[0]);
  cluster->Stop(SIGTERM);
  cluster->Wait(1s);
  ASSERT_EQ(cluster->role->state(), JobState::kCancelling);
  EXPECT_THAT(Waits(), Not(HasSubstr("no checkpoint can be made")));
}

// Else the last round would lack its slices, and be given up.
TEST_F(ChiefDeparturesTest, OnceTheJobIsCancelledItsEndLetsAllGo) {
  StartRunning();
  cluster->disk->fate = [this](const StorageOp& op) {
    cluster->disk_hangs |= op.kind == StorageOp::Kind::kWrite && op.path == "checkpoints/1-1/MANIFEST.tmp";
    return absl::OkStatus();
  };
  Tell(1);
  cluster->Wait(2s);
  ASSERT_TRUE(cluster->disk_hangs) << "the round for it is being made durable";
  cluster->Stop(SIGTERM);
  cluster->ps[0].answers_snapshots = false;
  cluster->LetDiskGoOn();
  cluster->Wait(1s);
  ASSERT_TRUE(Durable("1-1"));
  EXPECT_FALSE(MayLeave(1)) << "it is needed for the last one";
  EXPECT_EQ(cluster->role->state(), JobState::kCancelling);
  cluster->ps[0].answers_snapshots = true;
  cluster->Wait(3s);
  EXPECT_TRUE(Durable("1-2"));
  EXPECT_THAT(cluster->Sent<JobEnd>(cluster->ps[1]), Not(IsEmpty()));
}

// The next chief hears it too, and what was held goes on under it: so that is to be in a checkpoint of its own.
TEST_F(ChiefDeparturesTest, AChiefThatComesBackSeesToItAnew) {
  StartRunning();
  cluster->Wait(11s);
  for (const LeaseId lease : cluster->Ask(cluster->worker[0], 2)) cluster->Finish(cluster->worker[0], lease);
  auto next = std::make_unique<ChiefHarness>(SmallJob(), false, cluster->disk);
  for (int i = 0; i < 2; ++i) {
    next->ps[i].join = cluster->ps[i].join;
    next->ps[i].join.run = 7;
    next->ps[i].join.was = cluster->ps[i].id;
    next->ps[i].slices = cluster->ps[i].slices;
  }
  cluster = std::move(next);
  cluster->Start();
  cluster->JoinPs(1);
  Tell(1);
  cluster->Wait(1s);
  EXPECT_FALSE(MayLeave(1)) << "its slices are not placed yet, but it holds them";
  cluster->JoinPs(0);
  cluster->ReportData(cluster->JoinWorker(0));
  cluster->Wait(3s);
  EXPECT_TRUE(Durable("2-1"));
  EXPECT_TRUE(MayLeave(1));
}

TEST_F(ChiefDeparturesTest, TheStatusTellsWhoIsLeavingAndWhatItWaitsFor) {
  StartRunning();
  cluster->ps[0].answers_snapshots = false;
  cluster->ps[1].stats.waiting_for = "a checkpoint of what it holds, to leave";
  Tell(1);
  for (int second = 0; second < 3; ++second) {  // it serves on meanwhile
    ++cluster->ps[1].stats.steps;
    cluster->Wait(1s);
  }
  EXPECT_EQ(cluster->TaskStatus("ps-1")["leaving"], "SIGTERM");
  EXPECT_EQ(cluster->TaskStatus("ps-1")["state"], "RUNNING");
  EXPECT_EQ(cluster->TaskStatus("ps-0")["leaving"], "");
  EXPECT_THAT(Waits(), HasSubstr("\"for\":\"a checkpoint of what it holds, to leave\",\"seconds\":3"));
  EXPECT_THAT(Waits(), HasSubstr("\"task\":\"ps-1\",\"why\":\"was told to stop: SIGTERM\""));
  EXPECT_THAT(Waits(), HasSubstr("has not sent the records of 1 slice")) << "whom the round itself waits for";
}

}  // namespace
}  // namespace downpour
