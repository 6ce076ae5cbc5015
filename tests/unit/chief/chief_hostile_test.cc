// What no honest member says: refused, counted in status, never fatal, and without effect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/chief/chief_harness.h"

namespace downpour {
namespace {

using ::testing::IsEmpty;

constexpr Incarnation kNobody{(uint64_t{1} << 32) + 999};

class ChiefHostileTest : public ::testing::Test {
 protected:
  ChiefHostileTest() : cluster(SmallJob()) {
    cluster.Start();
    cluster.RunToRunning();
    lease = cluster.Ask(worker, 1).at(0);
  }
  uint64_t Rejected(const std::string& task) { return cluster.TaskStatus(task)["rejected"]; }
  uint64_t RejectedFromStrangers() { return cluster.Status()["chief"]["rejected"]; }
  // Says it, and expects that it is counted at the task and changed nothing.
  void ExpectRejected(const FakeMember& member, const std::string& task, Message message) {
    const uint64_t before = Rejected(task);
    const IntervalSet committed = cluster.role->committed();
    const auto holders = cluster.role->holders();
    cluster.Say(member.control, std::move(message));
    EXPECT_EQ(Rejected(task), before + 1);
    EXPECT_EQ(cluster.role->committed(), committed);
    EXPECT_EQ(cluster.role->holders(), holders);
    EXPECT_EQ(cluster.role->state(), JobState::kRunning);
  }
  ChiefHarness cluster;
  FakeMember& worker = cluster.worker[0];
  FakeMember& ps = cluster.ps[0];
  LeaseId lease{};
};

TEST_F(ChiefHostileTest, LeasesAndEvidenceThatCannotBe) {
  LeaseDone done = cluster.Evidence(worker, LeaseId{6});
  ExpectRejected(worker, "worker-0", done);
  done = cluster.Evidence(worker, lease);
  done.evidence.pop_back();
  ExpectRejected(worker, "worker-0", done);
  done.evidence.push_back(done.evidence[0]);
  ExpectRejected(worker, "worker-0", done);
  done.evidence[1].slice = SliceId{UINT32_MAX};
  ExpectRejected(worker, "worker-0", done);
  ExpectRejected(worker, "worker-0", WorkRequest{worker.id, {LeaseId{UINT64_MAX}}, 1, ++worker.work_requests});
}

TEST_F(ChiefHostileTest, GoodEvidenceWithAnAbsurdLossCommitsWithoutTheLoss) {
  cluster.Apply(lease);
  LeaseDone done = cluster.Evidence(worker, lease);
  done.examples = UINT64_MAX;
  cluster.Say(worker.control, done);
  EXPECT_TRUE(cluster.role->committed().Contains(ToNumber(lease)));
  EXPECT_EQ(Rejected("worker-0"), 1u);
  EXPECT_FALSE(cluster.Status()["progress"].contains("loss"));
}

TEST_F(ChiefHostileTest, ADivergedLossIsUnknownAndNoOffence) {
  cluster.Apply(lease);
  LeaseDone done = cluster.Evidence(worker, lease);
  done.loss_sum = std::numeric_limits<double>::quiet_NaN();
  cluster.Say(worker.control, done);
  EXPECT_TRUE(cluster.role->committed().Contains(ToNumber(lease)));
  EXPECT_EQ(Rejected("worker-0"), 0u);
  EXPECT_FALSE(cluster.Status()["progress"].contains("loss"));
}

TEST_F(ChiefHostileTest, StatsThatCannotBe) {
  Heartbeat heartbeat{.from = worker.id, .stats = {}, .log_lines = {}};
  heartbeat.stats.cpu_seconds = std::nan("");
  ExpectRejected(worker, "worker-0", heartbeat);
  heartbeat.stats.cpu_seconds = 0;
  heartbeat.stats.examples = UINT64_MAX;
  ExpectRejected(worker, "worker-0", heartbeat);
  EXPECT_EQ(cluster.TaskStatus("worker-0")["state"], "RUNNING") << "it lives all the same";
}

TEST_F(ChiefHostileTest, WhatAnotherRoleMaySay) {
  ExpectRejected(ps, "ps-0", WorkRequest{ps.id, {}, 2});
  ExpectRejected(ps, "ps-0", DataReport{ps.id, 1, 1, 1, ""});
  ExpectRejected(worker, "worker-0", SliceReport{.from = worker.id, .slices = {}});
  ExpectRejected(worker, "worker-0", SliceRecord{worker.id, {}, {}, {}, {}, {}});
  ExpectRejected(worker, "worker-0", ShardWritten{worker.id, {}, {}, 0, {}});
  ExpectRejected(worker, "worker-0", OpenBulk{worker.id});
  ExpectRejected(worker, "worker-0", Violation{worker.id, cluster.worker[1].id, "hm"});
  EXPECT_THAT(cluster.Sent<Refused>(cluster.worker[1]), IsEmpty());
}

TEST_F(ChiefHostileTest, SlicesThatAreNotThere) {
  SliceReport report{.from = ps.id, .slices = {}};
  report.slices.push_back({SliceId{77}, {1, 1}, "", {}});
  ExpectRejected(ps, "ps-0", report);
}

TEST_F(ChiefHostileTest, MessagesThatAreNotForAChief) {
  ExpectRejected(worker, "worker-0", Push{.from = worker.id, .slices = {}});
  ExpectRejected(worker, "worker-0", Welcome{});
  ExpectRejected(ps, "ps-0", JobEnd{true, "over"});
  cluster.Say(kStranger, Grant{worker.id, lease});
  EXPECT_EQ(RejectedFromStrangers(), 1u);
}

TEST_F(ChiefHostileTest, FramesThatAreNoMessage) {
  cluster.Feed(Malformed{worker.control, "junk"});
  EXPECT_EQ(Rejected("worker-0"), 1u);
  cluster.Feed(Malformed{ps.bulk, "junk"});
  EXPECT_EQ(Rejected("ps-0"), 1u);
  cluster.Feed(Malformed{kStranger, "junk"});
  EXPECT_EQ(RejectedFromStrangers(), 1u);
}

TEST_F(ChiefHostileTest, StrangersHaveNoSay) {
  cluster.Say(kStranger,
              cluster.Evidence(FakeMember{.join = {}, .id = kNobody, .stats = {}, .leaving = {}, .slices = {}}, lease));
  cluster.Say(kStranger, WorkRequest{kNobody, {}, 2});
  cluster.Say(kStranger, Violation{kNobody, worker.id, "so they say"});
  cluster.Say(kStranger, OpenBulk{Incarnation::kNone});
  EXPECT_EQ(RejectedFromStrangers(), 4u);
  cluster.Say(kStranger, Leave{kNobody, "bye"});
  EXPECT_FALSE(cluster.role->committed().Contains(ToNumber(lease)));
  EXPECT_EQ(cluster.TaskStatus("worker-0")["state"], "RUNNING");
}

TEST_F(ChiefHostileTest, JoinsThatAreRefusedAreCounted) {
  Join join = worker.join;
  join.nonce = 500;
  join.protocol = join.oldest_protocol = kProtocolVersion + 1;
  cluster.Say(kStranger, join);
  EXPECT_EQ(RejectedFromStrangers(), 1u);
  join = worker.join;
  join.nonce = 500;
  join.index = 2;
  cluster.Say(kStranger, join);
  EXPECT_EQ(RejectedFromStrangers(), 2u);
  join.index = 0;
  for (int i = 0; i < 5; ++i) cluster.Say(kStranger, join);
  EXPECT_EQ(RejectedFromStrangers(), 3u) << "it may wait for the name";
  join.nonce = 501;
  cluster.Say(kStranger, join);
  EXPECT_EQ(RejectedFromStrangers(), 4u);
  EXPECT_EQ(Rejected("worker-0"), 0u);
}

TEST_F(ChiefHostileTest, WordsStayPrintable) {
  Join join = worker.join;
  join.nonce = 5;
  join.index = 1;
  join.host = std::string("\xff\xfe\x1b]0;owned\x07", 12);
  cluster.worker[1].alive = false;
  cluster.Wait(6s);
  cluster.Say(kStranger, join);
  const std::string json = cluster.role->StatusJson(cluster.now);
  EXPECT_EQ(json.find('\x1b'), std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(json));
}

TEST_F(ChiefHostileTest, AFloodOfOffencesDoesNotFillTheLog) {
  cluster.Forget();
  for (int i = 0; i < 1000; ++i) cluster.Feed(Malformed{kStranger, "junk"});
  const auto is_log = [](const Effect& effect) { return std::holds_alternative<Log>(effect); };
  EXPECT_LT(std::count_if(cluster.effects.begin(), cluster.effects.end(), is_log), 12);
  EXPECT_EQ(RejectedFromStrangers(), 1000u);
}

TEST(ChiefHostileSharedTest, FramesThatAreNoMessageEndTheRoundThatWaitsForAShardFile) {
  ChiefHarness cluster(SmallJob({"checkpoint.via=shared", "checkpoint.every=1s"}));
  cluster.Start();
  cluster.RunToRunning();
  cluster.Wait(1s);
  ASSERT_FALSE(cluster.Sent<WriteShard>(cluster.ps[1]).empty());
  cluster.Feed(Malformed{cluster.ps[1].control, "ShardWritten: finished has too many elements"});
  EXPECT_THAT(cluster.Status().dump(), ::testing::HasSubstr("ps-1 said what was rejected"));
}

}  // namespace
}  // namespace downpour
