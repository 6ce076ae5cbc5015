#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/job_file.h"
#include "job/job_names.h"
#include "job/variables.h"
#include "runtime/prng.h"

namespace downpour {
namespace {

using testing::HasSubstr;

// Draws jobs such as the parser may return: every kind of layer and optimizer, awkward numbers and texts.
class JobDraw {
 public:
  explicit JobDraw(uint64_t seed) : prng_(seed) {}

  JobSpec Draw() {
    JobSpec job;
    job.name = "job-" + std::to_string(prng_.Below(1000));
    job.seed = prng_.Chance(0.2) ? UINT64_MAX - prng_.Below(3) : prng_.Next();
    const ClusterSpec tiers[] = {
        {"BASIC", 1, 1}, {"STANDARD_1", 5, 3}, {"PREMIUM_1", 20, 11}, {"CUSTOM", Between(1, 1024), Between(1, 1024)}};
    job.cluster = tiers[prng_.Below(4)];
    DrawModel(job.model);
    job.training.batch_size = Between(1, 1 << 20);
    job.training.epochs = Between(1, 1000000);
    job.training.lease_batches = Between(1, 1 << 20);
    (prng_.Chance(0.3) ? job.training.local_steps : job.training.push_every) = Between(1, job.training.lease_batches);
    job.training.pull_ahead = Between(0, 1) == 1;
    job.training.precision = kPrecisions[prng_.Below(3)].value;
    job.training.wire = kWireFormats[prng_.Below(2)].value;
    job.training.evaluate_every_epochs = Between(1, 1000000);
    job.training.max_skipped_pushes = Between(0, int64_t{1} << 40);
    DrawOptimizer(job.training.optimizer);
    DrawConsistency(job);
    if (job.training.local_steps > 0) DrawOuter(job.training.outer);
    const bool remembers = RemembersGradients(job.training.servers_optimizer().kind);
    const StalenessMethod methods[] = {StalenessMethod::kAuto, StalenessMethod::kNone, StalenessMethod::kRate,
                                       StalenessMethod::kSlowMomentum};
    job.training.staleness_method = methods[prng_.Below(remembers ? 4 : 3)];
    job.data.train = {Path(), Path()};
    if (prng_.Chance(0.5)) job.data.eval = {Path(), Path()};
    if (!job.data.eval.empty() && prng_.Chance(0.5)) {
      job.training.stop_early = {.metric = "loss", .patience = Between(1, 1000000), .min_delta = 1.0 / 3};
    }
    if (!job.training.stop_early && prng_.Chance(0.1)) job.training.evaluate_every_epochs = 0;
    const int64_t units[] = {1, 1000, 1000000, 1000000000, 3600000000000};
    if (prng_.Chance(0.8)) job.checkpoint.every = std::chrono::nanoseconds(Between(0, 999) * units[prng_.Below(5)]);
    job.checkpoint.keep = Between(1, 1000);
    job.checkpoint.via = prng_.Chance(0.5) ? CheckpointVia::kChief : CheckpointVia::kShared;
    job.scheduling.max_running_time = std::chrono::nanoseconds(Between(0, 999) * units[prng_.Below(5)]);
    job.timing.server_wait = std::chrono::nanoseconds(Between(0, 999) * units[prng_.Below(5)]);
    job.timing.chief_wait = std::chrono::nanoseconds(Between(0, 999) * units[prng_.Below(5)]);
    return job;
  }

 private:
  int64_t Between(int64_t low, int64_t high) { return low + static_cast<int64_t>(prng_.Below(high - low + 1)); }

  void DrawConsistency(JobSpec& job) {
    TrainingSpec& training = job.training;
    training.consistency = kConsistencies[prng_.Below(training.local_steps > 0 ? 2 : 3)].value;
    if (training.consistency == Consistency::kAsync) {
      if (prng_.Chance(0.5)) training.max_staleness = Between(0, int64_t{1} << 40);
      return;
    }
    training.lease_batches = training.step_batches();
    training.group_size = Between(1, 1024);
    if (training.consistency == Consistency::kSsp) {
      training.ssp_bound = Between(1, 1000000);
    } else {
      training.pull_ahead = false;
      training.backup_workers = Between(0, job.cluster.worker_count - 1);
    }
  }

  std::string Path() {
    const std::string parts[] = {"a b", "true", "7", "\"q\"", "\\", "#", ": ", "{", "ü", "日", "\n", "*x", "~", "&"};
    std::string path;
    for (uint64_t i = prng_.Below(6) + 1; i > 0; --i) path += parts[prng_.Below(std::size(parts))];
    return path;
  }

  void DrawModel(ModelSpec& model) {
    const int64_t width = Between(2, 9);
    model.inputs = {{"in", {width}}};
    std::string last = "in";
    for (int64_t i = Between(1, 6); i > 0; --i) {
      LayerSpec layer{"layer." + std::to_string(i), {last}, DenseSpec{width, DrawActivation(true), prng_.Chance(0.5)}};
      switch (prng_.Below(5)) {
        case 0:
          layer.op = ActivationSpec{DrawActivation(false)};
          break;
        case 1:
          layer.op = DropoutSpec{prng_.Uniform()};
          break;
        case 2:
          layer.from = {last, last};
          layer.op = AddSpec{};
          break;
        default:
          break;
      }
      last = layer.name;
      model.layers.push_back(layer);
    }
    model.layers.push_back({"both", {last, "in"}, ConcatSpec{}});
    model.layers.push_back({"out", {"both"}, DenseSpec{Between(2, 9), DrawActivation(true), prng_.Chance(0.5)}});
    model.loss = prng_.Chance(0.5) ? Loss::kSoftmaxCrossEntropy : Loss::kMeanSquaredError;
  }

  Activation DrawActivation(bool or_none) {
    const Activation all[] = {Activation::kRelu, Activation::kSigmoid, Activation::kTanh, Activation::kNone};
    return all[prng_.Below(or_none ? 4 : 3)];
  }

  double DrawNumber(NumberRange range) {
    if (range == NumberRange::kDecay) return prng_.Uniform();
    return range == NumberRange::kAmount && prng_.Chance(0.3) ? 0 : 1e-12 + prng_.Uniform() * 1e-3;
  }

  void DrawOuter(OptimizerSpec& outer) {
    outer = OuterDefaultsOf(kOuterOptimizers[prng_.Below(std::size(kOuterOptimizers))].value);
    outer.learning_rate = DrawNumber(NumberRange::kRate);
    if (outer.kind != OptimizerKind::kSgd) outer.momentum = DrawNumber(NumberRange::kDecay);
  }

  void DrawOptimizer(OptimizerSpec& optimizer) {
    optimizer = DefaultsOf(kOptimizers[prng_.Below(std::size(kOptimizers))].value);
    for (const auto& numbers : {CommonNumbers(), NumbersOf(optimizer.kind)}) {
      for (const OptimizerNumber& number : numbers) optimizer.*number.at = DrawNumber(number.range);
    }
    ScheduleSpec& schedule = optimizer.schedule;
    schedule.kind = kSchedules[prng_.Below(std::size(kSchedules))].value;
    schedule.warmup_steps = Between(0, 1000);
    if (schedule.kind == ScheduleKind::kStep) {
      schedule.step_every = Between(1, int64_t{1} << 40);
      schedule.decay = 1e-9 + prng_.Uniform() * 0.9;
    }
    if (schedule.kind == ScheduleKind::kCosine) {
      schedule.final_share = prng_.Uniform();
      schedule.total_steps = prng_.Chance(0.5) ? 0 : Between(1001, int64_t{1} << 40);
    }
    for (const char* pattern : {"out/*", "*"}) {
      if (prng_.Chance(0.5)) continue;
      OptimizerOverride own{.variables = pattern};
      if (prng_.Chance(0.5)) own.weight_decay = DrawNumber(NumberRange::kAmount);
      if (!own.weight_decay || prng_.Chance(0.5)) own.learning_rate = DrawNumber(NumberRange::kRate);
      optimizer.overrides.push_back(own);
    }
  }

  Prng prng_;
};

TEST(CanonicalJob, ParsesBackToTheSameJobAndTheSameText) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const JobSpec job = JobDraw(seed).Draw();
    const std::string text = CanonicalJob(job);
    const absl::StatusOr<JobSpec> back = ParseCanonicalJob(text);
    ASSERT_TRUE(back.ok()) << "seed " << seed << ": " << back.status() << "\n" << text;
    ASSERT_EQ(*back, job) << "seed " << seed << "\n" << text;
    ASSERT_EQ(CanonicalJob(*back), text) << "seed " << seed;
  }
}

TEST(CanonicalJob, DoesNotDependOnHowTheFileWasWritten) {
  const std::string model = "model: {inputs: [{name: i, shape: [4]}], layers: [{dense: {units: 2}}]}\n";
  const std::string data = "data: {train: {images: a, labels: b}}\n";
  const JobFileResult one = ParseJob("name: x\n" + model + data, "1");
  const JobFileResult two =
      ParseJob(data + model + "training: {epochs: 1, batchSize: 64}\nseed: 1\nname: \"x\"\n", "2");
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(CanonicalJob(one.job), CanonicalJob(two.job));
}

// As checkpoints and journals of earlier releases have it.
TEST(CanonicalJob, ThatOfAnEarlierReleaseIsRead) {
  const std::string now = CanonicalJob(
      *ParseCanonicalJob("{name: x, model: {inputs: [{name: i, shape: [4]}], layers: [{dense: {units: 2}}]}, "
                         "data: {train: {images: a, labels: b}}}"));
  std::string before = now;
  const std::string place = "\"training\":{";
  before.insert(before.find(place) + place.size(), "\"replicas\":1,");
  const absl::StatusOr<JobSpec> read = ParseCanonicalJob(before);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(CanonicalJob(*read), now);
}

TEST(CanonicalJob, AReceiverGetsTheFirstErrorAsAStatus) {
  const absl::StatusOr<JobSpec> job = ParseCanonicalJob("{\"name\": 3}");
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("job:1:"));
}

}  // namespace
}  // namespace downpour
