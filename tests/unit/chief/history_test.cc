#include "chief/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/unit/chief/chief_role_fixture.h"
#include "tests/unit/chief/event_reader.h"

namespace downpour {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class HistoryTest : public ChiefRoleTest {
 protected:
  // Those of a kind; lines that are none are left out, as readers do.
  std::vector<json> Lines(const std::string& kind) {
    std::vector<json> found;
    std::istringstream text(cluster->disk->Has(kHistoryFile) ? cluster->disk->At(kHistoryFile) : "");
    for (std::string line; std::getline(text, line);) {
      const json one = json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (one.is_object() && one["kind"] == kind) found.push_back(one);
    }
    return found;
  }
  std::vector<uint64_t> Numbers(const std::string& kind, const char* key) {
    std::vector<uint64_t> numbers;
    for (const json& line : Lines(kind)) numbers.push_back(line.at(key));
    return numbers;
  }
  std::vector<std::string> EventFiles() {
    std::vector<std::string> files;
    for (const std::string& path : cluster->disk->Paths()) {
      if (path.starts_with("events.out.tfevents.")) files.push_back(path);
    }
    return files;
  }
  void Finish(size_t leases) {
    FakeMember& worker = cluster->worker[0];
    for (size_t done = 0; done < leases;) {
      const std::vector<LeaseId> granted = cluster->Ask(worker, 1);
      if (granted.empty()) break;
      for (const LeaseId lease : granted) cluster->Finish(worker, lease), ++done;
    }
  }
  // So far, by a ps; of two the staleness is not known.
  void CountPushes(uint64_t pushes, uint64_t sum) {
    Staleness& counts = cluster->ps[0].stats.staleness;
    counts.pushes = pushes;
    counts.sum = sum;
    counts.unknown = 2;
  }
  // Another chief in the same folder, of whose slices none is left.
  void Restart() {
    auto next = std::make_unique<ChiefHarness>(SmallJob(), /*resume=*/true, cluster->disk);
    next->now = cluster->now + 1s;
    next->unix_ms = cluster->unix_ms + 100'000;
    cluster = std::move(next);
    cluster->Start();
  }
};

TEST_F(HistoryTest, ALifeBeginsWithTheJobAndItsHyperparameters) {
  StartRunning({"training.optimizer.learningRate=0.25"});
  const std::vector<json> jobs = Lines("job");
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_EQ(jobs[0]["name"], "small");
  EXPECT_EQ(jobs[0]["run"], "0000000000000007");
  const json& values = jobs[0]["hyperparameters"];
  EXPECT_EQ(values.value("training.optimizer.learningRate", json()), 0.25) << values;
  EXPECT_EQ(values.value("model.layers.0.dense.units", json()), 3) << values;
  EXPECT_EQ(values.value("training.batchSize", json()), 2);
  EXPECT_FALSE(values.contains("checkpoint.keep"));
}

TEST_F(HistoryTest, APointASecondHasWhatHappenedSinceTheOneBefore) {
  StartRunning();
  CountPushes(12, 40);
  Finish(2);
  cluster->Wait(2s);
  CountPushes(14, 41);
  Finish(1);
  cluster->Wait(1s);
  std::vector<json> points = Lines("train");
  ASSERT_EQ(points.size(), 4u);
  EXPECT_FALSE(points[0].contains("loss")) << "nothing has happened yet";
  points.erase(points.begin());
  EXPECT_EQ(points[0].value("loss", json()), 0.5) << "a loss of 2 over 4 examples";
  EXPECT_EQ(points[0].value("staleness", json()), 4.0);
  EXPECT_EQ(points[0]["examples"], 8);
  EXPECT_EQ(points[0]["step"], 4);
  EXPECT_EQ(points[0]["learningRate"], 0.1);
  EXPECT_EQ(points[0]["epoch"], 0);
  EXPECT_FALSE(points[1].contains("loss")) << "nothing was reported since";
  EXPECT_FALSE(points[1].contains("staleness"));
  EXPECT_EQ(points.back().value("staleness", json()), 0.5);
  EXPECT_EQ(points.back()["epoch"], 1);
  EXPECT_GE(points[1]["elapsed"].get<double>(), points[0]["elapsed"].get<double>() + 1);
  EXPECT_EQ(points[1]["time"].get<double>() - points[0]["time"].get<double>(),
            points[1]["elapsed"].get<double>() - points[0]["elapsed"].get<double>());
}

TEST_F(HistoryTest, ALossThatIsNotFiniteIsNull) {
  StartRunning();
  FakeMember& worker = cluster->worker[0];
  const LeaseId lease = cluster->Ask(worker, 1).at(0);
  LeaseDone done = cluster->Evidence(worker, lease);
  done.loss_sum = std::nan("");
  cluster->Apply(lease);
  cluster->Say(worker.control, done);
  cluster->Wait(1s);
  EXPECT_TRUE(Lines("train").back().at("loss").is_null());
}

TEST_F(HistoryTest, TheRateFollowsItsSchedule) {
  StartRunning({"training.optimizer.schedule={name: step, stepEvery: 4, decay: 0.5}"});
  Finish(2);
  cluster->Wait(1s);
  EXPECT_EQ(Lines("train").back()["learningRate"], 0.05);
}

// A lease has two batches, which its worker takes in one step.
TEST_F(HistoryTest, TheRateOfLocalStepsFollowsItsScheduleByBatches) {
  StartRunning({"training.localSteps=2", "training.optimizer.schedule={name: step, stepEvery: 4, decay: 0.5}"});
  Finish(2);
  cluster->Wait(1s);
  EXPECT_EQ(Lines("train").back()["learningRate"], 0.05);
}

TEST_F(HistoryTest, TasksThatLiveAreThereWithTheirRates) {
  StartRunning();
  cluster->worker[0].stats.resident_bytes = 1000;
  GpuStats& gpu = cluster->worker[0].stats.gpu;
  gpu.utilisation = 87;
  gpu.memory_used = 5;
  gpu.memory_total = 9;
  cluster->worker[1].alive = false;
  for (int i = 0; i < 20; ++i) {
    cluster->worker[0].stats.cpu_seconds += 0.25;
    cluster->Wait(500ms);
  }
  const json tasks = Lines("tasks").back()["tasks"];
  EXPECT_NEAR(tasks.at("worker-0")["cpu"].get<double>(), 0.5, 1e-6);
  EXPECT_EQ(tasks.at("worker-0")["memoryBytes"], 1000);
  EXPECT_EQ(tasks.at("worker-0").at("gpu"), 0.87);
  EXPECT_EQ(tasks.at("worker-0").at("gpuMemoryBytes"), 5);
  EXPECT_TRUE(tasks.contains("ps-1"));
  EXPECT_FALSE(tasks.at("ps-1").contains("examplesPerSecond"));
  EXPECT_FALSE(tasks.contains("worker-1")) << "it is lost";
}

TEST_F(HistoryTest, AJobThatEndsHasEveryEpochEveryEvaluationAndALastPoint) {
  StartRunning({"training.metrics=[top2]"});
  Finish(3);
  cluster->Ask(cluster->worker[1], 1);
  cluster->Evaluate(cluster->worker[1]);
  cluster->Ask(cluster->worker[0], 1);
  cluster->Evaluate(cluster->worker[0]);
  for (const auto& [lease, holder] : cluster->role->holders()) cluster->Finish(cluster->worker[0], lease);
  TrainAndEvaluate();
  cluster->Wait(3s);
  SayGoodbye();
  cluster->Wait(8s);
  ASSERT_TRUE(cluster->exit());
  EXPECT_THAT(Numbers("epoch", "epoch"), ElementsAre(1, 2));
  EXPECT_EQ(Lines("epoch")[0].value("loss", json()), 0.5);
  EXPECT_THAT(Numbers("eval", "epoch"), ElementsAre(1, 2));
  EXPECT_EQ(Lines("eval")[1]["loss"], 0.5);
  EXPECT_EQ(Lines("eval")[1].at("metrics").at("top2"), 0.3);
  EXPECT_EQ(Lines("train").back()["examples"], 24);
  EXPECT_EQ(Lines("train").back()["step"], 12);
  EXPECT_EQ(Lines("train").size(), Lines("tasks").size());
}

TEST_F(HistoryTest, TensorBoardIsToldTheSame) {
  StartRunning();
  cluster->worker[0].stats.resident_bytes = 1000;
  Finish(3);
  cluster->Wait(2s);
  ASSERT_THAT(EventFiles(),
              ElementsAre("events.out.tfevents.1700000000.chief." + std::to_string(cluster->role->term())));
  const std::vector<ReadEvent> events = EventReader::Read(cluster->disk->At(EventFiles()[0]));
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[1].hyperparameters.at("training.optimizer.name"), "momentum");
  std::map<std::string, std::pair<uint64_t, float>> newest;
  for (const ReadEvent& event : events) {
    for (const auto& [tag, value] : event.scalars) newest[tag] = {event.step, value};
  }
  EXPECT_EQ(newest.at("train/examples"), std::pair(uint64_t{6}, 12.0f));
  EXPECT_EQ(newest.at("epoch/loss"), std::pair(uint64_t{1}, 0.5f)) << "by its epoch";
  EXPECT_TRUE(newest.contains("tasks/worker-0/cpu"));
  EXPECT_FALSE(newest.contains("tasks/ps-0/cpu")) << "it has not said what it uses";
  EXPECT_FALSE(newest.contains("train/time"));
  EXPECT_FALSE(newest.contains("tasks/epoch"));
}

TEST_F(HistoryTest, ALaterChiefGoesOnBehindALineThatWasCut) {
  StartRunning();
  Finish(3);
  cluster->Wait(2s);
  const uint64_t reached = Numbers("train", "step").back();
  ASSERT_EQ(reached, 6u);
  cluster->disk->At(kHistoryFile) += R"({"kind":"train","step":999)";
  const size_t before = Lines("train").size();
  Restart();
  cluster->RunToRunning();
  Finish(1);
  cluster->Wait(2s);
  const std::vector<json> points = Lines("train");
  ASSERT_GT(points.size(), before);
  EXPECT_EQ(points.back()["examples"], 4) << "the servers lost what they had";
  for (const json& point : points) EXPECT_LE(point["step"], reached);
  EXPECT_EQ(points.back()["step"], reached) << "steps do not go back in one run";
  EXPECT_THAT(Lines("job"), SizeIs(2));
  EXPECT_THAT(EventFiles(), SizeIs(2)) << "a life, a file";
}

TEST_F(HistoryTest, ANewRunBeginsItsStepsAgain) {
  auto disk = std::make_shared<MemoryDisk>();
  disk->Put(kHistoryFile, R"({"kind":"train","step":999})"
                          "\n");
  cluster = std::make_unique<ChiefHarness>(SmallJob(), false, disk);
  cluster->Start();
  cluster->RunToRunning();
  cluster->Wait(2s);
  EXPECT_EQ(Numbers("train", "step").back(), 0u);
}

TEST_F(HistoryTest, TheMoreThereIsTheFurtherPointsAreApart) {
  for (const auto& [megabytes, apart] : {std::pair(0, 1.0), {3, 2.0}, {9, 16.0}}) {
    auto disk = std::make_shared<MemoryDisk>();
    disk->Put(kHistoryFile, std::string(static_cast<size_t>(megabytes) << 20, 'x'));
    cluster = std::make_unique<ChiefHarness>(SmallJob(), false, disk);
    cluster->Start();
    cluster->RunToRunning();
    cluster->Wait(40s);
    const std::vector<json> points = Lines("train");
    ASSERT_GE(points.size(), 3u);
    EXPECT_NEAR(points[2]["elapsed"].get<double>() - points[1]["elapsed"].get<double>(), apart, 0.05) << megabytes;
  }
}

TEST_F(HistoryTest, ADiskThatTakesNoHistoryStopsNothing) {
  StartRunning();
  cluster->disk->fate = [](const StorageOp& op) {
    const bool is_history = op.path == kHistoryFile || op.path.starts_with("events.out");
    return is_history ? absl::ResourceExhaustedError("no space left on device") : absl::OkStatus();
  };
  cluster->Wait(5s);
  TrainAndEvaluate();
  cluster->Wait(3s);
  SayGoodbye();
  cluster->Wait(8s);
  ASSERT_TRUE(cluster->exit());
  EXPECT_EQ(cluster->exit()->code, 0);
  const auto is_warning = [](const Effect& effect) {
    const auto* log = std::get_if<Log>(&effect);
    return log != nullptr && log->severity == Severity::kWarning && log->text.find("no space") != std::string::npos;
  };
  EXPECT_EQ(std::ranges::count_if(cluster->effects, is_warning), 2) << "one for each file";
}

}  // namespace
}  // namespace downpour
