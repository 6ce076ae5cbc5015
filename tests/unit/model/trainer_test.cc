#include "model/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "job/slice_grid.h"
#include "model/graph.h"
#include "runtime/metrics.h"
#include "runtime/plan.h"
#include "tensor/apply_kernels.h"
#include "tensor/host_backend.h"
#include "tests/parity/deferred_backend.h"
#include "tests/unit/model/trainer_fixture.h"

namespace downpour {
namespace {

using testing::HasSubstr;

TEST_F(TrainerTest, PrepareCountsAndFingerprints) {
  const Answer answer = Run(Prepare{job_});
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  const Prepared prepared = std::get<Prepared>(answer.last);
  EXPECT_EQ(prepared.train_examples, 117u);
  EXPECT_EQ(prepared.eval_examples, 30u);

  JobSpec without = job_;
  without.data.eval = {};
  const Prepared less = std::get<Prepared>(Run(Prepare{without}).last);
  EXPECT_EQ(less.eval_examples, 0u);
  EXPECT_NE(less.fingerprint, prepared.fingerprint);
  EXPECT_EQ(std::get<Prepared>(Run(Prepare{job_}).last).fingerprint, prepared.fingerprint);
}

TEST_F(TrainerTest, DataThatIsNotTheModelsIsRefusedNamingBoth) {
  JobSpec job = job_;
  job.model.inputs[0].shape = {5, 4};
  Answer answer = Run(Prepare{job});
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(answer.status.message()), HasSubstr("data.train has 16 values"));
  EXPECT_THAT(std::string(answer.status.message()), HasSubstr("model's inputs (image) take 20"));

  job = job_;
  std::get<DenseSpec>(job.model.layers[2].op).units = 2;
  answer = Run(Prepare{job});
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(answer.status.message()), HasSubstr("data.train has 3 classes"));
  EXPECT_THAT(std::string(answer.status.message()), HasSubstr("output (out) has 2 units"));

  job = job_;
  job.data.eval.images = "nowhere";
  EXPECT_EQ(Run(Prepare{job}).status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Run(TrainStep{LeaseId{0}, 1, AllSlices(1)}).status.code(), absl::StatusCode::kFailedPrecondition);
}

// The gradients are those of the plan's batch, drawn with the plan's seed, short last batch included.
TEST_F(TrainerTest, AStepComputesThePlansBatch) {
  ASSERT_TRUE(Run(Prepare{job_}).status.ok());
  const SliceValues updates = AllSlices(3);
  const auto data = OpenDataset(job_.data, job_.data.train);
  const auto backend = MakeHostBackend({});
  const auto graph = std::move(*Graph::Create(job_.model, 8, *backend));
  for (const auto& [id, values] : updates) {
    ASSERT_TRUE(graph->SetParameters(grid_.at(id).variable, grid_.at(id).offset, values.floats()).ok());
  }
  const LeaseId short_lease{plan_.leases_per_epoch() - 1};
  for (const auto& [lease, step] : {std::pair{LeaseId{1}, Step{2}}, {short_lease, plan_.StepsOf(short_lease)}}) {
    const Answer answer = Run(TrainStep{lease, step, updates});
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    ASSERT_EQ(answer.gradients.size(), 2u);  // a part per dense layer
    EXPECT_FALSE(answer.gradients[0].last);
    EXPECT_TRUE(answer.gradients[1].last);

    std::vector<uint64_t> ids;
    plan_.Examples(lease, step, &ids);
    std::vector<ColumnValues> columns(2);
    ASSERT_TRUE((*data)->ReadBatch(ids, {0, 1}, absl::MakeSpan(columns)).ok());
    std::vector<float> inputs;
    const auto& pixels = std::get<std::vector<uint8_t>>(columns[0]);
    for (uint8_t pixel : pixels) inputs.push_back(static_cast<float>(pixel) / 255.0f);
    const auto& classes = std::get<std::vector<int64_t>>(columns[1]);
    ASSERT_TRUE(graph->LoadBatch(inputs, std::vector<int32_t>(classes.begin(), classes.end())).ok());
    VariableGradients expected;
    const auto collect = [&](const VariableGradients& part) {
      expected.insert(expected.end(), part.begin(), part.end());
    };
    auto result = graph->Train(plan_.DrawSeed(lease, step, 0), collect);
    ASSERT_TRUE(result.ok());
    collect(result->last);

    EXPECT_EQ(answer.gradients[1].loss_sum, result->loss);
    EXPECT_EQ(answer.gradients[1].examples, ids.size());
    const std::map<SliceId, Payload> slices = BySlice(answer);
    ASSERT_EQ(slices.size(), grid_.size());
    for (const auto& [variable, values] : expected) {
      for (const Slice& slice : grid_.slices) {
        if (slice.variable != variable) continue;
        ASSERT_EQ(static_cast<int64_t>(slices.at(slice.id).size()), slice.bytes());
        EXPECT_EQ(std::memcmp(slices.at(slice.id).data(), values.data() + slice.offset * 4, slices.at(slice.id).size()),
                  0);
      }
    }
  }
  EXPECT_EQ(plan_.ExamplesOf(short_lease, plan_.StepsOf(short_lease)), 5u);
}

// The norm is of the layer that is computed last too, and on a device as on the host.
TEST_F(TrainerTest, WhereTheNormIsClippedAStepLeavesAsAWhole) {
  JobSpec clipped = job_;
  ASSERT_TRUE(Run(Prepare{job_}).status.ok());
  const Answer free = Run(TrainStep{LeaseId{1}, 2, AllSlices(3)});
  double squares = 0;
  for (const auto& [id, gradient] : BySlice(free)) {
    for (const float g : gradient.floats()) squares += static_cast<double>(g) * g;
  }
  clipped.training.optimizer.clip_norm = std::sqrt(squares) / 4;
  for (const bool deferred : {false, true}) {
    Trainer trainer(deferred ? std::make_unique<DeferredBackend>() : MakeHostBackend({}));
    ASSERT_TRUE(Run(trainer, Prepare{clipped}).status.ok());
    const Answer answer = Run(trainer, TrainStep{LeaseId{1}, 2, AllSlices(3)});
    ASSERT_EQ(answer.gradients.size(), 1u);
    EXPECT_TRUE(answer.gradients[0].last);
    const std::map<SliceId, Payload> slices = BySlice(answer);
    ASSERT_EQ(slices.size(), grid_.size());
    for (const auto& [id, gradient] : BySlice(free)) {
      for (size_t i = 0; i < gradient.floats().size(); ++i) {
        ASSERT_NEAR(slices.at(id).floats()[i], gradient.floats()[i] / 4, 1e-6);
      }
    }
  }
}

// 117 examples: the last lease has a whole step and one of 21 examples, in batches of 8, 8 and 5.
TEST_F(TrainerTest, AStepOfSeveralBatchesIsOneOfALargerBatch) {
  JobSpec small = job_, large = job_;
  for (JobSpec* job : {&small, &large}) {
    std::erase_if(job->model.layers, [](const LayerSpec& layer) { return layer.name == "drop"; });
    job->model.layers.back().from = {"hidden"};
  }
  small.training.lease_batches = 8;
  small.training.push_every = 4;
  large.training.batch_size = 32;
  large.training.lease_batches = 2;
  const Plan plan(small, 117);
  const LeaseId last{plan.leases_per_epoch() - 1};
  for (const bool deferred : {false, true}) {
    Trainer by_parts(deferred ? std::make_unique<DeferredBackend>() : MakeHostBackend({}));
    ASSERT_TRUE(Run(by_parts, Prepare{small}).status.ok());
    ASSERT_TRUE(Run(Prepare{large}).status.ok());
    for (const auto& [lease, step] : {std::pair{LeaseId{0}, Step{1}}, {last, Step{1}}, {last, Step{2}}}) {
      const Answer parts = Run(by_parts, TrainStep{lease, step, AllSlices(3)});
      const Answer whole = Run(TrainStep{lease, step, AllSlices(3)});
      ASSERT_TRUE(parts.status.ok()) << parts.status;
      EXPECT_EQ(parts.gradients.size(), 2u) << "gradients leave once, layer by layer";
      EXPECT_EQ(parts.gradients.back().examples, step == 2 ? 21u : 32u);
      EXPECT_EQ(whole.gradients.back().examples, parts.gradients.back().examples);
      EXPECT_NEAR(parts.gradients.back().loss_sum, whole.gradients.back().loss_sum, 1e-4);
      const std::map<SliceId, Payload> slices = BySlice(parts);
      for (const auto& [id, values] : BySlice(whole)) {
        for (size_t i = 0; i < values.floats().size(); ++i) {
          ASSERT_NEAR(slices.at(id).floats()[i], values.floats()[i], 1e-6) << ToNumber(id) << " at " << i;
        }
      }
    }
  }
}

// Values are rounded on their way here, gradients on their way back; what a rounding leaves out goes with the next one.
TEST_F(TrainerTest, NumbersMayTravelAsBf16) {
  JobSpec job = job_;
  job.training.wire = WireFormat::kBf16;
  const SliceGrid grid = GridOf(job.model, job.training.wire).value();
  SliceValues rounded, widened;
  for (const auto& [id, values] : AllSlices(3)) {
    rounded.emplace_back(id, Payload::Allocate(grid.WireBytes(id)));
    RoundToBf16(values.floats(), rounded.back().second.mutable_as<Bf16>().data());
    widened.emplace_back(id, Payload::Allocate(values.size()));
    WidenBf16(rounded.back().second.as<Bf16>(), widened.back().second.mutable_floats().data());
  }
  ASSERT_TRUE(Run(Prepare{job_}).status.ok());
  const std::map<SliceId, Payload> exact = BySlice(Run(TrainStep{LeaseId{0}, 1, widened}));
  ASSERT_TRUE(Run(Prepare{job}).status.ok());
  EXPECT_EQ(Run(TrainStep{LeaseId{0}, 1, widened}).status.code(), absl::StatusCode::kInvalidArgument);
  std::map<SliceId, std::vector<float>> sums;
  constexpr int kTimes = 50;
  for (int time = 0; time < kTimes; ++time) {
    TrainStep step{LeaseId{0}, 1, time == 0 ? rounded : SliceValues()};
    for (const auto& [id, sum] : sums) step.settled.push_back({step.lease, step.step, id, /*counted=*/true});
    const Answer answer = Run(step);
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    for (const auto& [id, gradient] : BySlice(answer)) {
      ASSERT_EQ(gradient.size(), grid.WireBytes(id));
      sums[id].resize(gradient.as<Bf16>().size());
      std::vector<float> floats(sums[id].size());
      WidenBf16(gradient.as<Bf16>(), floats.data());
      for (size_t i = 0; i < floats.size(); ++i) sums[id][i] += floats[i];
    }
  }
  ASSERT_EQ(sums.size(), grid_.size());
  for (const auto& [id, gradient] : exact) {
    for (size_t i = 0; i < gradient.floats().size(); ++i) {
      const float g = gradient.floats()[i];
      ASSERT_NEAR(sums[id][i], kTimes * g, std::fabs(g) / 128 + 1e-6f) << "one rounding is owed, however many steps";
    }
  }
}

TEST_F(TrainerTest, ADeviceWithMemoryOfItsOwnComputesTheSame) {
  Trainer device(std::make_unique<DeferredBackend>());
  ASSERT_TRUE(Run(Prepare{job_}).status.ok());
  ASSERT_TRUE(Run(device, Prepare{job_}).status.ok());
  for (Step step : {Step{1}, Step{2}}) {
    const SliceValues updates = AllSlices(step);
    const Answer here = Run(TrainStep{LeaseId{1}, step, updates}),
                 there = Run(device, TrainStep{LeaseId{1}, step, updates});
    ASSERT_TRUE(there.status.ok()) << there.status;
    EXPECT_EQ(there.gradients.size(), here.gradients.size());
    EXPECT_EQ(there.gradients.back().loss_sum, here.gradients.back().loss_sum);
    const std::map<SliceId, Payload> slices = BySlice(there);
    for (const auto& [id, values] : BySlice(here)) {
      ASSERT_EQ(slices.count(id), 1u);
      EXPECT_EQ(slices.at(id).floats(), values.floats()) << ToNumber(id);
    }
  }
}

TEST_F(TrainerTest, UpdatesReplaceWhatWasLoaded) {
  ASSERT_TRUE(Run(Prepare{job_}).status.ok());
  const auto loss = [&](SliceValues updates) {
    const Answer answer = Run(TrainStep{LeaseId{0}, 1, std::move(updates)});
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return answer.gradients.back().loss_sum;
  };
  const double first = loss(AllSlices(3));
  EXPECT_EQ(loss({}), first);
  EXPECT_NE(loss({AllSlices(4).back()}), first);
  EXPECT_EQ(loss({AllSlices(3).back()}), first);
}

TEST_F(TrainerTest, WhatIsNotThePlansOrTheGridsIsRefused) {
  ASSERT_TRUE(Run(Prepare{job_}).status.ok());
  SliceValues most = AllSlices(1);
  most.pop_back();
  const Answer early = Run(TrainStep{LeaseId{0}, 1, most});
  EXPECT_EQ(early.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(early.status.message()), HasSubstr("1 slices"));
  ASSERT_TRUE(Run(TrainStep{LeaseId{0}, 1, AllSlices(1)}).status.ok());

  const auto code = [&](const ComputeRequest& request) { return Run(request).status.code(); };
  const Payload four = Payload::Zeros(4);
  EXPECT_EQ(code(TrainStep{LeaseId{0}, 0, {}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(TrainStep{LeaseId{0}, 4, {}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(TrainStep{LeaseId{plan_.total_leases()}, 1, {}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(TrainStep{LeaseId{0}, 1, {{SliceId{0}, four}}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(TrainStep{LeaseId{0}, 1, {{SliceId{99}, four}}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(EvalStep{0, 5, {}}), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code(EvalStep{UINT64_MAX, 2, {}}), absl::StatusCode::kOutOfRange);

  ASSERT_TRUE(Run(Prepare{job_}).status.ok());  // forgets the slices
  EXPECT_EQ(code(TrainStep{LeaseId{0}, 1, {}}), absl::StatusCode::kFailedPrecondition);
}

class GuessesTest : public TrainerTest {
 protected:
  // 100 examples of label 0 and 300 of label 2.
  SetFiles Uneven() {
    const SetFiles files = {folder_.path() + "/uneven", folder_.path() + "/uneven.labels"};
    std::vector<uint8_t> labels(400, 2);
    std::fill_n(labels.begin(), 100, uint8_t{0});
    EXPECT_TRUE(WriteIdx(files.images, {400, kSide, kSide}, std::vector<uint8_t>(400 * kPixels)).ok());
    EXPECT_TRUE(WriteIdx(files.labels, {400}, labels).ok());
    return files;
  }
};

TEST_F(GuessesTest, EachSetHasItsOwn) {
  JobSpec job = job_;
  job.data.eval = Uneven();
  const Guesses guesses = std::get<Prepared>(Run(Prepare{job}).last).guesses;
  EXPECT_EQ(guesses.eval, GuessOf(std::vector<uint64_t>{100, 0, 300}, Loss::kSoftmaxCrossEntropy, kClasses));
  EXPECT_FALSE(guesses.train.known()) << "117 examples of three classes";
  std::swap(job.data.train, job.data.eval);
  const Guesses swapped = std::get<Prepared>(Run(Prepare{job}).last).guesses;
  EXPECT_EQ(swapped, (Guesses{guesses.eval, guesses.train}));
}

TEST_F(GuessesTest, WithASquaredErrorLabelsAreNumbers) {
  JobSpec job = job_;
  job.data.train = Uneven();
  job.data.eval = {};
  job.model.loss = Loss::kMeanSquaredError;
  job.model.layers.back().op = DenseSpec{1, Activation::kNone, true};
  const Answer answer = Run(Prepare{job});
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(std::get<Prepared>(answer.last).guesses, (Guesses{{.loss = 0.75}, {}}));
}

TEST_F(TrainerTest, EvaluationAddsUpOverItsParts) {
  ASSERT_TRUE(Run(Prepare{job_}).status.ok());
  const auto evaluate = [&](uint64_t first, uint64_t batches, SliceValues updates) {
    const Answer answer = Run(EvalStep{first, batches, std::move(updates)});
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return std::get<Evaluated>(answer.last);
  };
  const Evaluated whole = evaluate(0, 4, AllSlices(1));
  const Evaluated head = evaluate(0, 3, {}), tail = evaluate(3, 1, {});
  EXPECT_EQ(whole.examples, 30u);
  EXPECT_EQ(tail.examples, 6u);
  EXPECT_EQ(head.examples + tail.examples, whole.examples);
  EXPECT_EQ(head.correct + tail.correct, whole.correct);
  EXPECT_NEAR(head.loss_sum + tail.loss_sum, whole.loss_sum, 1e-9);
}

TEST_F(TrainerTest, MetricsOfAnEvaluationAgreeWithItsOwnCounts) {
  JobSpec job = job_;
  job.training.metrics = {{MetricKind::kTopK, 2}, {MetricKind::kLogLoss}, {MetricKind::kCalibrationError}};
  ASSERT_TRUE(Run(Prepare{job}).status.ok());
  const auto evaluate = [&](uint64_t first, uint64_t batches, SliceValues updates) {
    return std::get<Evaluated>(Run(EvalStep{first, batches, std::move(updates)}).last);
  };
  const Evaluated whole = evaluate(0, 4, AllSlices(1));
  ASSERT_EQ(whole.metric_sums.size(), CountMetricSums(job.training.metrics));
  EXPECT_GE(whole.metric_sums[0], static_cast<double>(whole.correct));
  EXPECT_LT(whole.metric_sums[0], static_cast<double>(whole.examples));
  EXPECT_NEAR(whole.metric_sums[1], whole.loss_sum, 1e-4);
  double right = 0;
  for (size_t bin = 0; bin < 15; ++bin) right += whole.metric_sums[2 + 3 * bin + 2];
  EXPECT_EQ(right, static_cast<double>(whole.correct));

  const Evaluated head = evaluate(0, 3, {}), tail = evaluate(3, 1, {});
  for (size_t i = 0; i < whole.metric_sums.size(); ++i) {
    EXPECT_NEAR(head.metric_sums[i] + tail.metric_sums[i], whole.metric_sums[i], 1e-9) << i;
  }
}

TEST_F(TrainerTest, SaysWhatItComputesWithAndHow) {
  EXPECT_THAT(trainer_.device(), HasSubstr("cpu"));
  Trainer with_units(std::make_unique<DeferredBackend>());
  const auto arithmetic = [&](Trainer& trainer, ProductPrecision precision, WireFormat wire) {
    JobSpec job = job_;
    job.training.precision = precision;
    job.training.wire = wire;
    return std::get<Prepared>(Run(trainer, Prepare{job}).last).arithmetic;
  };
  EXPECT_EQ(arithmetic(trainer_, ProductPrecision::kFp32, WireFormat::kFp32), "all in fp32");
  EXPECT_EQ(arithmetic(trainer_, ProductPrecision::kTf32, WireFormat::kBf16),
            "all in fp32, since this device has no faster units for tf32; pushes and pulls in bf16");
  EXPECT_EQ(arithmetic(with_units, ProductPrecision::kBf16, WireFormat::kFp32),
            "matrix products and what layers hand on in bf16, all else in fp32");
}

}  // namespace
}  // namespace downpour
