// A cluster in which nothing moves is not healthy: what the status says of one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chief/known/progress.h"
#include "runtime/input_bound.h"
#include "tests/unit/chief/chief_harness.h"

namespace downpour {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Duration kStallTime = Progress::kStandsStillAfter + 1s;

class StallTest : public ::testing::Test {
 protected:
  StallTest() : cluster(SmallJob()) {
    cluster.Start();
    cluster.RunToRunning();
    for (FakeMember& worker : cluster.worker) cluster.Ask(worker, 1);
  }
  // From now on both do nothing else.
  void BothWait(const std::string& what) {
    for (FakeMember& worker : cluster.worker) {
      worker.stats.waiting_for = what;
      cluster.Beat(worker);
    }
  }
  std::string Stalled() const { return cluster.Status()["stalled"]; }

  ChiefHarness cluster;
};

TEST_F(StallTest, SaysWhatItsTasksWaitForAndWhy) {
  cluster.Finish(cluster.worker[0], LeaseId{0});
  BothWait("parameters from ps-0");
  cluster.Wait(3s);
  EXPECT_EQ(Stalled(), "") << "not for long yet";
  for (FakeMember& worker : cluster.worker) {
    worker.stats.warning = "the ps at h1:4242 cannot be reached: name or service not known";
    worker.stats.warned_ms_ago = 0;
    cluster.Beat(worker);
  }
  cluster.Wait(kStallTime);
  EXPECT_THAT(Stalled(), AllOf(HasSubstr("nothing has moved for 1"),
                               HasSubstr("worker-0, worker-1 wait for parameters from ps-0: the ps at h1:4242 cannot "
                                         "be reached: name or service not known")));
  const json status = cluster.Status();
  EXPECT_EQ(status["progress"]["examplesPerSecond"], 0);
  EXPECT_FALSE(status.contains("remainingSeconds"));
  EXPECT_THAT(status["waits"][0]["why"], HasSubstr("cannot be reached"));
  ++cluster.worker[0].stats.steps;
  cluster.Beat(cluster.worker[0]);
  EXPECT_EQ(Stalled(), "");
}

TEST_F(StallTest, AWarningOfBeforeIsNotTheReason) {
  FakeMember& worker = cluster.worker[0];
  worker.stats.warning = "it has other worries";
  cluster.Wait(5s);
  worker.stats.warned_ms_ago = 5000;
  BothWait("parameters");
  cluster.Wait(3s);
  EXPECT_EQ(cluster.Status()["waits"][0]["why"], "");
  EXPECT_EQ(cluster.TaskStatus("worker-0")["warning"], "it has other worries");
  EXPECT_GE(cluster.TaskStatus("worker-0")["warningAgeSeconds"], 5);
}

TEST_F(StallTest, AWorkerThatReadsForItsStepMovesHoweverLongThatTakes) {
  cluster.Finish(cluster.worker[0], LeaseId{0});
  BothWait(kReadsMostOfTheTime);
  cluster.Wait(6 * kStallTime);
  EXPECT_EQ(Stalled(), "");
  EXPECT_THAT(cluster.Status()["waits"], IsEmpty());
  EXPECT_EQ(cluster.TaskStatus("worker-0")["waitingFor"], kReadsMostOfTheTime);
}

TEST_F(StallTest, AWorkerThatComputesMovesHoweverLongItsStepTakes) {
  cluster.worker[0].stats.waiting_for = "parameters";
  cluster.Wait(6 * kStallTime);
  EXPECT_EQ(Stalled(), "");
}

TEST_F(StallTest, WhatTravelsSlowlyMoves) {
  BothWait("pushes to be acknowledged by ps-0");
  for (int i = 0; i < 30; ++i) {
    ++cluster.ps[0].stats.steps;
    cluster.Wait(1s);
  }
  EXPECT_EQ(Stalled(), "") << "a ps applies";
  BothWait("parameters from ps-0");
  for (int i = 0; i < 30; ++i) {
    cluster.worker[1].stats.bytes_in += 100'000;
    cluster.Wait(1s);
  }
  EXPECT_EQ(Stalled(), "") << "parameters arrive";
  for (int i = 0; i < 30; ++i) {
    cluster.worker[1].stats.bytes_in += 300;
    cluster.Wait(1s);
  }
  EXPECT_NE(Stalled(), "") << "only the chief's words do";
}

TEST_F(StallTest, WithoutWorkNothingNeedsToMove) {
  cluster.ps[0].answers_snapshots = false;  // the last checkpoint takes its time
  for (FakeMember& worker : cluster.worker) cluster.FinishAll(worker);
  cluster.Evaluate(cluster.worker[0]);
  cluster.Evaluate(cluster.worker[1]);
  BothWait("work");
  ASSERT_EQ(cluster.Status()["state"], "RUNNING");
  cluster.Wait(kStallTime);
  EXPECT_EQ(Stalled(), "");
  // Its slices lack all leases now. Nobody had the time to move since they are open again.
  FakeMember& restarted = cluster.ps[0];
  restarted.alive = false;
  cluster.Wait(6s);
  restarted.alive = true;
  restarted.slices.clear();
  ++restarted.join.nonce;
  cluster.JoinPs(0);
  ASSERT_EQ(cluster.Status()["progress"]["leasesCommitted"], 0);
  EXPECT_EQ(Stalled(), "");
  cluster.Wait(kStallTime);
  EXPECT_NE(Stalled(), "");
}

TEST_F(StallTest, ThePauseOfTheChiefIsNobodysStandstill) {
  BothWait("parameters");
  cluster.now += 60s;
  cluster.Feed(Tick{});
  EXPECT_EQ(Stalled(), "");
}

TEST_F(StallTest, WhoeverFindsNoLeaseIsSpare) {
  cluster.Ask(cluster.worker[0], 16);
  cluster.Ask(cluster.worker[0], 16);
  ASSERT_THAT(cluster.TaskStatus("worker-0")["leases"], testing::Not(IsEmpty()));
  FakeMember& spare = cluster.worker[1];
  for (const json& lease : json(cluster.TaskStatus("worker-1")["leases"])) {
    cluster.Finish(cluster.worker[0], LeaseId{lease});  // so that it is no slower than the spare one
  }
  cluster.Ask(spare, 1);
  EXPECT_EQ(cluster.TaskStatus("worker-1")["spare"], true);
  EXPECT_EQ(cluster.TaskStatus("worker-0")["spare"], false);
}

TEST_F(StallTest, WhoeverFindsNoPlaceIsShown) {
  Join join;
  join.role = TaskRole::kWorker;
  join.nonce = 4711;
  join.host = "h7";
  join.pid = 12;
  cluster.Say(PeerId{static_cast<uint64_t>(PeerId::kFirstAccepted) + 99}, join);
  const json spares = cluster.Status()["spares"];
  ASSERT_EQ(spares.size(), 1u);
  EXPECT_EQ(spares[0]["host"], "h7");
  EXPECT_EQ(spares[0]["role"], "worker");
  EXPECT_THAT(spares[0]["why"], HasSubstr("all of them are there"));
}

}  // namespace
}  // namespace downpour
