#include "chief/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chief/known/failure_log.h"
#include "chief/lifecycle.h"
#include "chief/shutdown.h"
#include "schema/codec.h"
#include "tests/unit/chief/chief_harness.h"
#include "tests/unit/cluster/sample_status.h"

namespace downpour {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

json SampleOf(int block) { return json::parse(JsonBlockOfStatusPage(block)); }

// Every field of the sample is there, of the same kind; and there is none that the sample lacks.
void ExpectSameShape(const json& sample, const json& actual, const std::string& place) {
  if (sample.is_number()) {
    EXPECT_TRUE(actual.is_number()) << place;
  } else {
    EXPECT_EQ(sample.type(), actual.type()) << place;
  }
  if (sample.is_array() && !sample.empty() && !actual.empty()) ExpectSameShape(sample[0], actual[0], place + "[0]");
  if (!sample.is_object()) return;
  for (const auto& [key, value] : sample.items()) {
    EXPECT_TRUE(actual.contains(key)) << place << "." << key << " is documented and missing";
    if (actual.contains(key)) ExpectSameShape(value, actual[key], place + "." + key);
  }
  for (const auto& [key, value] : actual.items()) {
    EXPECT_TRUE(sample.contains(key)) << place << "." << key << " is not documented";
  }
}

class StatusTest : public ::testing::Test {
 protected:
  StatusTest()
      : cluster(SmallJob({"scheduling.maxRunningTime=1h", "model.layers.0.dense.units=9",
                          "training.metrics=[top5, calibrationError]", "checkpoint.best=loss"})) {
    cluster.Start();
  }

  // A job in which everything has happened that status can tell of.
  void LiveFully() {
    cluster.RunToRunning();
    FakeMember& worker = cluster.worker[0];
    for (const LeaseId lease : cluster.Ask(worker, 3)) cluster.Finish(worker, lease);
    cluster.Ask(worker, 1);
    cluster.Evaluate(worker);
    for (FakeMember* member : {&worker, &cluster.ps[0], &cluster.ps[1]}) {
      member->stats = {
          .steps = 12,
          .examples = 24,
          .pushes_acknowledged = 24,
          .refused_from = {},
          .cpu_seconds = 0.5,
          .resident_bytes = 4096,
          .bytes_in = 10,
          .bytes_out = 20,
          .staleness = {.pushes = 101, .unknown = 1, .sum = 104, .max = 5, .histogram = {0, 99, 0, 0, 0, 1}},
          .waiting_for = {},
          .table_rows = 1000,
          .table_bytes = 64000,
          .keys_unborn = 3};
    }
    worker.stats.gpu = {.address = "0000:3B:00.0",
                        .name = "NVIDIA H200",
                        .utilisation = 87,
                        .celsius = 61,
                        .memory_used = 4096,
                        .memory_total = 8192};
    worker.stats.warning = "a link is broken";
    cluster.Wait(10s);
    cluster.worker[1].alive = false;
    cluster.ps[0].answers_snapshots = false;
    cluster.Wait(11s);
  }
  ChiefHarness cluster;
};

TEST_F(StatusTest, HasTheFieldsOfItsPageAndNoOthers) {
  LiveFully();
  json status = cluster.Status();
  EXPECT_THAT(status["waits"], SizeIs(1)) << "the checkpoint waits for ps-0";
  // The sample's task is a worker that lives.
  for (const json& task : json(status["tasks"])) {
    if (task["name"] == "worker-0") status["tasks"][0] = task;
  }
  ExpectSameShape(SampleOf(0), status, "status");
}

TEST_F(StatusTest, TablesAreThoseOfThePsThatLive) {
  EXPECT_FALSE(cluster.Status().contains("tables"));
  LiveFully();
  const json status = cluster.Status();
  EXPECT_EQ(status["tables"], json({{"rows", 2000}, {"bytes", 128000}, {"keysUnborn", 6}}));
  for (const json& task : status["tasks"]) {
    const json own = task.value("tables", json());
    EXPECT_EQ(own, task["role"] == "ps" ? json({{"rows", 1000}, {"bytes", 64000}, {"keysUnborn", 3}}) : json()) << task;
  }
  cluster.ps[1].alive = false;
  cluster.Wait(30s);
  EXPECT_EQ(cluster.Status()["tables"]["rows"], 1000) << "they come back with the ps that takes its place";
}

TEST_F(StatusTest, TheSummaryHasTheFieldsOfItsPageAndNoOthers) {
  LiveFully();
  cluster.ps[0].answers_snapshots = true;
  cluster.Stop(15);
  cluster.Wait(Lifecycle::kLastRound + 2 * Shutdown::kGoodbye);
  ExpectSameShape(SampleOf(1), json::parse(cluster.disk->At("summary.json")), "summary");
}

TEST_F(StatusTest, WhoeverIsMissingNeedsTheKeysToo) {
  ChiefHarness locked(SmallJob());
  locked.role = std::make_unique<ChiefRole>(ChiefOptions{.job = SmallJob(),
                                                         .job_dir = "/j",
                                                         .host = "h",
                                                         .pid = 1,
                                                         .keys = "my keys",
                                                         .secrets = {PeerRole::kPs, PeerRole::kChief},
                                                         .timing = {}});
  locked.Start();
  const json next = locked.Status()["next"];
  EXPECT_EQ(next[0], "downpour-ps --keys='my keys' --chief=127.0.0.1:40123 --listen=0.0.0.0:0");
  EXPECT_EQ(next[1], "downpour-worker --keys=DIR --chief=127.0.0.1:40123") << "whose secret is not there";
  EXPECT_EQ(next[2], "downpour watch --keys=DIR --chief 127.0.0.1:40123");
}

TEST_F(StatusTest, WhoStartedAllStartsWhoIsMissing) {
  const auto next_of = [](ChiefOptions::Starts starts) {
    ChiefHarness harness(SmallJob());
    harness.role = std::make_unique<ChiefRole>(ChiefOptions{.job = SmallJob(),
                                                            .job_dir = "/j",
                                                            .host = "h",
                                                            .pid = 1,
                                                            .command = "up lab",
                                                            .starts = starts,
                                                            .timing = {}});
    harness.Start();
    return harness.Status()["next"];
  };
  const json watch = "downpour watch --chief 127.0.0.1:40123";
  EXPECT_EQ(next_of(ChiefOptions::Starts::kBySupervisor), json::array({watch}));
  EXPECT_EQ(next_of(ChiefOptions::Starts::kByCommand), json::array({"up lab"}));
}

TEST_F(StatusTest, AServerThatWritesBesideTheChiefNeedsItsFolder) {
  ChiefHarness shared(SmallJob({"checkpoint.via=shared"}));
  shared.Start();
  EXPECT_THAT(shared.Status()["next"][0].get<std::string>(),
              HasSubstr("--chief=127.0.0.1:40123 --job_dir=" + shared.Status()["chief"]["jobDir"].get<std::string>()));
}

TEST_F(StatusTest, SaysWhoIsPendingAndWhy) {
  cluster.JoinPs(0);
  json status = cluster.Status();
  EXPECT_EQ(status["state"], "QUEUED");
  EXPECT_THAT(status["pending"].dump(), HasSubstr(R"({"task":"ps-0","why":"waits until ps-1 is there, too"})"));
  EXPECT_THAT(status["pending"].dump(), HasSubstr(R"({"task":"worker-1","why":"has not joined yet"})"));
  EXPECT_THAT(status["next"].dump(), HasSubstr("downpour-worker --chief=127.0.0.1:40123"));
  cluster.JoinWorker(0);
  EXPECT_THAT(cluster.Status()["pending"].dump(), HasSubstr("reads its data"));
  cluster.RunToRunning();
  EXPECT_THAT(cluster.Status()["pending"], IsEmpty());
}

TEST_F(StatusTest, WhoLeftIsAskedForAgainUnlessItsSupervisorStartsIt) {
  cluster.RunToRunning();
  EXPECT_THAT(cluster.Status()["next"].dump(), Not(HasSubstr("downpour-worker")));
  cluster.Say(cluster.worker[0].control, Leave{.from = cluster.worker[0].id, .why = "done"});
  EXPECT_EQ(cluster.Status()["next"][0], "downpour-worker --chief=127.0.0.1:40123");
  cluster.worker[0].join.launcher = "run-1";
  ++cluster.worker[0].join.nonce;
  cluster.JoinWorker(0);
  cluster.Say(cluster.worker[0].control, Leave{.from = cluster.worker[0].id, .why = "done"});
  EXPECT_THAT(cluster.Status()["next"].dump(), Not(HasSubstr("downpour-worker")));
}

TEST_F(StatusTest, SaysWhatWorkersWaitForUntilTheyGetOn) {
  cluster.RunToRunning();
  FakeMember& worker = cluster.worker[1];
  worker.stats.waiting_for = "parameters from ps-1";
  cluster.Beat(worker);
  EXPECT_THAT(cluster.Status()["waits"], IsEmpty()) << "not for long yet";
  cluster.Wait(3s);
  const json waits = cluster.Status()["waits"];
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0]["task"], "worker-1");
  EXPECT_EQ(waits[0]["for"], "parameters from ps-1");
  EXPECT_GE(waits[0]["seconds"], 2);
  worker.stats.waiting_for = "answers from ps-0";  // which is not to blame for the time before
  cluster.Beat(worker);
  EXPECT_THAT(cluster.Status()["waits"], IsEmpty());
  cluster.Wait(3s);
  EXPECT_THAT(cluster.Status()["waits"], SizeIs(1));
  ++worker.stats.steps;  // and waits for the next ones
  cluster.Beat(worker);
  EXPECT_THAT(cluster.Status()["waits"], IsEmpty());
}

TEST_F(StatusTest, InSyncItSaysWhoseLeaseAGroupWaitsFor) {
  ChiefHarness sync(SmallJob({"training.leaseBatches=", "training.consistency=sync", "training.groupSize=2"}));
  sync.Start();
  sync.RunToRunning();
  FakeMember& slow = sync.worker[0];
  FakeMember& fast = sync.worker[1];
  ASSERT_THAT(sync.Ask(slow, 1), ElementsAre(LeaseId{0}));
  ASSERT_THAT(sync.Ask(fast, 1), ElementsAre(LeaseId{1}));
  sync.Finish(fast, LeaseId{1});
  ASSERT_THAT(sync.Ask(fast, 1), IsEmpty());
  fast.stats.waiting_for = "work";
  sync.Beat(fast);
  sync.Wait(3s);
  const json waits = sync.Status()["waits"];
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0]["task"], "worker-1");
  EXPECT_EQ(waits[0]["why"], "worker-0 has not finished lease 0");
  EXPECT_EQ(sync.Status()["tasks"][3]["spare"], false) << "it has work once that one is there";
}

TEST_F(StatusTest, WhatAHeartbeatWaitedForIsOverOnceItIsThere) {
  for (int i = 0; i < 2; ++i) cluster.JoinPs(i);
  cluster.ReportData(cluster.JoinWorker(0));
  FakeMember& worker = cluster.JoinWorker(1);
  worker.stats.waiting_for = "its data to be indexed";
  cluster.Wait(3s);
  EXPECT_EQ(cluster.Status()["state"], "RUNNING");
  EXPECT_THAT(cluster.Status()["pending"].dump(), HasSubstr("waits for its data to be indexed"));
  cluster.ReportData(worker);
  EXPECT_THAT(cluster.Status()["pending"].dump(), HasSubstr("waits for all slices to be in place"));
  worker.stats.waiting_for = "the placement of the parameters";
  worker.placement = 0;  // it was lost on its way
  cluster.Beat(worker);
  cluster.ReportData(worker);  // once more, since nobody has answered
  EXPECT_THAT(cluster.Status()["pending"].dump(), HasSubstr("waits for the placement of the parameters"));
  cluster.Ask(worker, 1);
  EXPECT_THAT(cluster.Status()["pending"], IsEmpty());
}

TEST_F(StatusTest, CountsStalenessExactly) {
  LiveFully();
  const json staleness = cluster.TaskStatus("worker-0")["staleness"];
  EXPECT_DOUBLE_EQ(staleness["mean"], 1.04);
  EXPECT_EQ(staleness["p99"], 1);
  EXPECT_EQ(staleness["max"], 5);
  EXPECT_EQ(staleness["unknown"], 1);
  EXPECT_EQ(cluster.Status()["staleness"]["unknown"], 2) << "of both ps";
  EXPECT_EQ(cluster.Status()["pushes"]["applied"], 24) << "what its ps call steps";
  EXPECT_EQ(cluster.Status()["pushes"]["acknowledged"], 24);
}

TEST_F(StatusTest, SaysHowManyWorkersShareAGpu) {
  cluster.RunToRunning();
  const auto beat = [&](size_t worker, const std::string& address) {
    cluster.worker[worker].stats.gpu.address = address;
    cluster.Beat(cluster.worker[worker]);
  };
  beat(0, "0000:01:00.0");
  beat(1, "0000:02:00.0");
  EXPECT_EQ(cluster.TaskStatus("worker-0")["gpu"], json({{"address", "0000:01:00.0"}, {"workers", 1}}))
      << "what is unknown is left out";
  beat(1, "0000:01:00.0");
  EXPECT_EQ(cluster.TaskStatus("worker-0")["gpu"]["workers"], 2);
  beat(1, "");
  EXPECT_EQ(cluster.TaskStatus("worker-0")["gpu"]["workers"], 1);
  EXPECT_FALSE(cluster.TaskStatus("worker-1").contains("gpu"));
}

TEST_F(StatusTest, LeavesOutWhatIsUnknown) {
  const json status = cluster.Status();
  EXPECT_FALSE(status.contains("remainingSeconds"));
  EXPECT_FALSE(status.contains("evaluation"));
  EXPECT_FALSE(status["checkpoint"].contains("round"));
  EXPECT_FALSE(status["progress"].contains("loss"));
  EXPECT_FALSE(status["staleness"].contains("mean"));
  EXPECT_EQ(status["startTimeUnixMs"], 1700000000000);
}

TEST_F(StatusTest, IsAnsweredToWhoeverAsks) {
  cluster.Say(PeerId{99}, StatusRequest{});
  ASSERT_THAT(cluster.Sent<StatusReply>(PeerId{99}), SizeIs(1));
  EXPECT_EQ(json::parse(cluster.Sent<StatusReply>(PeerId{99})[0].json)["job"], "small");
}

TEST_F(StatusTest, TellsWhoWasRefusedAtTheDoor) {
  cluster.Feed(ResourceSample{.refused = 3, .refused_from = "10.0.0.7"});
  EXPECT_EQ(cluster.Status()["chief"]["refused"], 3);
  EXPECT_EQ(cluster.Status()["chief"]["refusedFrom"], "10.0.0.7");
  cluster.RunToRunning();
  cluster.ps[1].stats.handshakes_refused = 4;
  cluster.ps[1].stats.refused_from = std::string(1000, '\n');
  cluster.Beat(cluster.ps[1]);
  const json task = cluster.Status()["tasks"][1];
  EXPECT_EQ(task["refused"], 4);
  EXPECT_LE(task["refusedFrom"].get<std::string>().size(), 256u);
}

TEST(LargeStatusTest, LeavesOutRowsRatherThanBreakOff) {
  ChiefHarness cluster(SmallJob({"cluster.workerCount=1024", "cluster.parameterServerCount=1024"}));
  cluster.Start();
  for (uint64_t i = 0; i < 2048; ++i) {
    const PeerId peer{static_cast<uint64_t>(PeerId::kFirstAccepted) + 1000 + i};
    Join join;
    join.role = i % 2 == 0 ? TaskRole::kPs : TaskRole::kWorker;
    join.nonce = 1000 + i;
    join.host = join.device = std::string(250, '"');
    join.endpoint = "ipc:///" + std::string(240, '"');
    cluster.Say(peer, join);
    Heartbeat heartbeat{.from = cluster.Sent<Welcome>(peer).at(0).you, .stats = {}, .log_lines = {}};
    heartbeat.stats.waiting_for = join.host;
    cluster.Say(peer, heartbeat);
    cluster.Forget();
  }
  const absl::StatusOr<Message> sent = Decode(Encode(StatusReply{cluster.role->StatusJson(cluster.now)}));
  ASSERT_TRUE(sent.ok()) << sent.status();
  const json status = json::parse(std::get<StatusReply>(*sent).json);
  EXPECT_GT(status["tasks"].size(), 500u);
  EXPECT_EQ(status["tasks"].size() + status["tasksOmitted"].get<size_t>(), 2048u);
  EXPECT_GT(status["tasksOmitted"], 0);
  EXPECT_EQ(status["pending"].size() + status["pendingOmitted"].get<size_t>(), 2048u);
}

TEST_F(StatusTest, FailuresAreBounded) {
  cluster.RunToRunning();
  for (uint64_t i = 1; i <= 100; ++i) {
    cluster.ps[0].stats.pushes_skipped = i;
    cluster.Beat(cluster.ps[0]);
  }
  EXPECT_THAT(cluster.Status()["failures"], SizeIs(FailureLog::kMost));
}

}  // namespace
}  // namespace downpour
