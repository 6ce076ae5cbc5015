// Whole models on every device: their gradients against finite differences in double precision and
// against the host's; the same bits for the same step.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "job/slice_grid.h"
#include "model/parameter_loader.h"
#include "runtime/compute.h"
#include "tensor/apply_kernels.h"
#include "tensor/host_backend.h"
#include "tests/parity/devices.h"
#include "tests/unit/model/model_cases.h"

namespace downpour {
namespace {

using Case = std::tuple<DeviceCase, ModelCase>;

class ModelParityTest : public testing::TestWithParam<Case> {
 protected:
  const ModelSpec& model() const { return std::get<1>(GetParam()).model; }
  const DeviceCase& device() const { return std::get<0>(GetParam()); }
  std::unique_ptr<Backend> backend_ = device().open();
};
std::string NameOfCase(const testing::TestParamInfo<Case>& param) {
  return std::get<0>(param.param).name + "_" + std::get<1>(param.param).name;
}
INSTANTIATE_TEST_SUITE_P(Models, ModelParityTest,
                         testing::Combine(testing::ValuesIn(DevicesUnderTest()), testing::ValuesIn(ModelCases())),
                         NameOfCase);

// Of models that draw nothing: each batch of a step has draws of its own.
class StepParityTest : public ModelParityTest {};
std::vector<ModelCase> ModelCasesWithoutDraws() {
  std::vector<ModelCase> cases = ModelCases();
  std::erase_if(cases, [](const ModelCase& c) { return c.name == "Dropout"; });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Models, StepParityTest,
                         testing::Combine(testing::ValuesIn(DevicesUnderTest()),
                                          testing::ValuesIn(ModelCasesWithoutDraws())),
                         NameOfCase);

// Of the length of the whole gradient, 16 roundings of a float and 8 of a product's factors, or of what layers hand on
// (three layers, forward and backward). A unit whose sign such a rounding turns is worth more, hence lengths and not
// elements.
double Rounding(const DeviceCase& device) { return device.factor_rounding + device.storage_rounding; }
double Tolerance(const DeviceCase& device) { return 16 * 0x1p-23 + 8 * Rounding(device); }

// `want` in the order of variables.
template <class Variables>
void ExpectClose(const VariableGradients& got, const Variables& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  double error = 0, length = 0;
  for (const auto& [variable, payload] : got) {
    ASSERT_EQ(payload.floats().size(), want[variable].size());
    for (size_t i = 0; i < payload.floats().size(); ++i) {
      const double wanted = want[variable][i];
      error += std::pow(payload.floats()[i] - wanted, 2);
      length += std::pow(wanted, 2);
    }
  }
  EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(length) + 1e-8);
}

std::vector<absl::Span<const float>> ByVariable(const VariableGradients& gradients) {
  std::vector<absl::Span<const float>> sorted(gradients.size());
  for (const auto& [variable, payload] : gradients) sorted[variable] = payload.floats();
  return sorted;
}

TEST_P(ModelParityTest, GradientsAreThoseOfFiniteDifferences) {
  for (size_t batch : {size_t{1}, size_t{5}, size_t{kMaxBatch}}) {
    GraphFixture fixture(model(), batch, *backend_);
    double loss = 0;
    const VariableGradients gradients = fixture.Train(&loss);
    EXPECT_NEAR(loss, fixture.ReferenceLoss(), Tolerance(device()) * (1 + fixture.ReferenceLoss()));
    ExpectClose(gradients, fixture.Slopes(), Tolerance(device()));
  }
}

TEST_P(ModelParityTest, GradientsAreTheHosts) {
  const std::unique_ptr<Backend> host = MakeHostBackend({});
  GraphFixture here(model(), 7, *backend_), there(model(), 7, *host);
  double loss = 0, loss_there = 0;
  const VariableGradients got = here.Train(&loss), want = there.Train(&loss_there);
  EXPECT_NEAR(loss, loss_there, Tolerance(device()) * (1 + loss_there));
  ExpectClose(got, ByVariable(want), Tolerance(device()));
}

TEST_P(ModelParityTest, TheSameStepGivesTheSameBits) {
  GraphFixture one(model(), 5, *backend_), other(model(), 5, *backend_);
  double loss = 0, other_loss = 0;
  const VariableGradients gradients = one.Train(&loss);
  EXPECT_TRUE(SameBits(gradients, other.Train(&other_loss)));
  EXPECT_EQ(loss, other_loss);
  EXPECT_TRUE(SameBits(gradients, one.Train(&other_loss)));  // nothing is left over from the step before
}

TEST_P(StepParityTest, OfSeveralBatchesHasTheGradientOfItsMean) {
  for (size_t size : {1, 3, 4}) {  // of 8: the last batch is full or not
    GraphFixture whole(model(), kMaxBatch, *backend_), parts(model(), kMaxBatch, *backend_);
    double loss = 0, loss_of_parts = 0;
    for (int step = 0; step < 2; ++step) {  // nothing is left over from the step before
      const VariableGradients want = whole.Train(&loss), got = parts.TrainInBatchesOf(size, &loss_of_parts);
      EXPECT_NEAR(loss_of_parts, loss, Tolerance(device()) * (1 + loss));
      ExpectClose(got, ByVariable(want), Tolerance(device()));
    }
  }
}

// Two batches, one behind the other, of bytes or of the floats that they stand for.
std::vector<VariableGradients> TrainOnPixels(const ModelSpec& model, Backend& backend, InputType type) {
  auto graph = std::move(*Graph::Create(model, kMaxBatch, backend, {type}));
  const std::vector<VariableSpec> variables = VariablesOf(model);
  for (size_t v = 0; v < variables.size(); ++v) {
    std::vector<float> values(static_cast<size_t>(variables[v].elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) / 32 - 0.25f;
    EXPECT_TRUE(graph->SetParameters(v, 0, values).ok());
  }
  std::vector<VariableGradients> trained;
  for (size_t batch : {size_t{5}, size_t{kMaxBatch}}) {
    std::vector<uint8_t> bytes(batch * static_cast<size_t>(graph->input_width()));
    std::vector<float> floats;
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<uint8_t>(37 * i + batch);
      floats.push_back(static_cast<float>(bytes[i]) / 255.0f);
    }
    const std::vector<int32_t> labels(batch, 1);
    EXPECT_TRUE((type == InputType::kBytes ? graph->LoadBatch(bytes, labels) : graph->LoadBatch(floats, labels)).ok());
    trained.emplace_back();
    const auto keep = [&](VariableGradients ready) {
      for (auto& gradient : ready) trained.back().push_back(std::move(gradient));
    };
    auto result = graph->Train(kDrawSeed, keep);
    EXPECT_TRUE(result.ok()) << result.status();
    keep(std::move(result->last));
  }
  return trained;
}

TEST_P(ModelParityTest, BytesAreTheFloatsThatTheyStandFor) {
  const auto bytes = TrainOnPixels(model(), *backend_, InputType::kBytes);
  const auto floats = TrainOnPixels(model(), *backend_, InputType::kFp32);
  for (size_t i = 0; i < floats.size(); ++i) EXPECT_TRUE(SameBits(bytes[i], floats[i])) << i;
}

// A step of one batch or of four. Every second variable has changed since the step before: the others are set only
// where `all` are. Gradients in the order in which they left.
VariableGradients TrainStep(uint64_t number, const ModelSpec& model, Graph& graph, bool all, double* loss) {
  const std::vector<VariableSpec> variables = VariablesOf(model);
  for (size_t v = 0; v < variables.size(); ++v) {
    if (!all && (number + v) % 2 != 0) continue;
    std::vector<float> values(static_cast<size_t>(variables[v].elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i + (number + v) / 2) % 17) / 32 - 0.25f;
    EXPECT_TRUE(graph.SetParameters(v, 0, values).ok());
  }
  std::vector<size_t> batches = {number % 4 == 1 ? 5u : size_t{kMaxBatch}};
  if (number % 4 == 3) batches = {kMaxBatch, kMaxBatch, kMaxBatch, 5 + number / 16};
  if (number % 16 >= 8 && batches.size() > 1) std::swap(batches[2], batches[3]);
  BatchInStep place{0, static_cast<int64_t>(std::accumulate(batches.begin(), batches.end(), size_t{0}))};
  VariableGradients gradients;
  const auto keep = [&](VariableGradients ready) {
    for (auto& gradient : ready) gradients.push_back(std::move(gradient));
  };
  for (size_t batch : batches) {
    std::vector<float> inputs(batch * static_cast<size_t>(graph.input_width()));
    const uint64_t kind = 7 * number + static_cast<uint64_t>(place.before);
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>((37 * i + 11 * kind) % 101) / 50 - 1;
    std::vector<int32_t> labels(batch);
    for (size_t i = 0; i < batch; ++i) labels[i] = static_cast<int32_t>((i + kind) % 2);
    EXPECT_TRUE(graph.LoadBatch(inputs, labels).ok());
    auto result = graph.Train(kind, keep, place);
    EXPECT_TRUE(result.ok()) << result.status();
    keep(std::move(result->last));
    *loss = result->loss;
    place.before += static_cast<int64_t>(batch);
  }
  return gradients;
}

// Whatever a device recorded of steps, it computes with what is there now: as a graph does whose first step it is.
TEST_P(ModelParityTest, StepsThatComeAgainGiveTheBitsOfFirstOnes) {
  const auto create = [&] { return std::move(*Graph::Create(model(), kMaxBatch, *backend_)); };
  const auto graph = create();
  for (uint64_t number = 0; number < 32; ++number) {
    double loss = 0, loss_of_first = 0;
    const VariableGradients again = TrainStep(number, model(), *graph, number == 0, &loss);
    EXPECT_TRUE(SameBits(again, TrainStep(number, model(), *create(), true, &loss_of_first))) << number;
    EXPECT_EQ(loss, loss_of_first) << number;
  }
}

// Of every slice in each of some steps, as they travel.
std::vector<SliceValues> ValuesOfSteps(const SliceGrid& grid, int steps) {
  Prng random(7);
  std::vector<SliceValues> all(static_cast<size_t>(steps));
  for (SliceValues& values : all) {
    for (const Slice& slice : grid.slices) {
      Payload floats = Payload::Allocate(static_cast<size_t>(slice.bytes()));
      for (float& v : floats.mutable_floats()) v = static_cast<float>(random.Uniform() - 0.5);
      Payload travels = grid.wire == WireFormat::kFp32 ? floats : Payload::Allocate(grid.WireBytes(slice.id));
      if (grid.wire == WireFormat::kBf16) RoundToBf16(floats.floats(), travels.mutable_as<Bf16>().data());
      values.emplace_back(slice.id, std::move(travels));
    }
  }
  return all;
}

// `staged`: most slices of the next step are staged while this one is computed.
std::vector<VariableGradients> TrainSteps(const std::vector<SliceValues>& steps, const ModelSpec& model,
                                          const SliceGrid& grid, Backend& backend, bool staged) {
  const auto graph = std::move(*Graph::Create(model, kMaxBatch, backend));
  ParameterLoader loader;
  EXPECT_TRUE(loader.Open(grid, *graph, backend).ok());
  const std::vector<float> inputs(static_cast<size_t>(kMaxBatch * graph->input_width()), 0.5f);
  std::vector<VariableGradients> trained;
  for (size_t step = 0; step < steps.size(); ++step) {
    EXPECT_TRUE(graph->LoadBatch(inputs, std::vector<int32_t>(kMaxBatch, 1)).ok());
    for (const auto& [id, values] : steps[step]) EXPECT_TRUE(loader.Load(id, values).ok());
    VariableGradients& gradients = trained.emplace_back();
    const auto keep = [&](VariableGradients ready) {
      for (auto& gradient : ready) gradients.push_back(std::move(gradient));
    };
    const auto stage_next = [&] {
      if (!staged || step + 1 == steps.size()) return;
      for (const auto& [id, values] : steps[step + 1]) {
        if ((ToNumber(id) + step) % 4 != 0) loader.Pack(id, values);
      }
    };
    auto result = graph->Train(kDrawSeed, keep, {}, stage_next);
    EXPECT_TRUE(result.ok()) << result.status();
    keep(std::move(result->last));
    loader.EndStep(result.ok());
  }
  return trained;
}

TEST_P(ModelParityTest, ParametersThatWereStagedAheadGiveTheSameBits) {
  for (WireFormat wire : {WireFormat::kFp32, WireFormat::kBf16}) {
    const SliceGrid grid = GridOf(model(), wire).value();
    const std::vector<SliceValues> steps = ValuesOfSteps(grid, 7);
    const auto staged = TrainSteps(steps, model(), grid, *backend_, true);
    const auto plain = TrainSteps(steps, model(), grid, *backend_, false);
    for (size_t i = 0; i < steps.size(); ++i) EXPECT_TRUE(SameBits(staged[i], plain[i])) << i;
  }
}

// Gradients that are not wanted change nothing of what comes after.
TEST_P(ModelParityTest, GradientsMayStayOnTheDevice) {
  GraphFixture fixture(model(), 5, *backend_);
  double loss = 0;
  const VariableGradients gradients = fixture.Train(&loss);
  const auto result = fixture.graph().Train(kDrawSeed, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->loss, loss);
  EXPECT_TRUE(result->last.empty());
  EXPECT_TRUE(SameBits(gradients, fixture.Train(&loss)));
}

TEST_P(ModelParityTest, EvaluationCountsWhatIsCorrect) {
  GraphFixture fixture(model(), 8, *backend_);
  fixture.reference().training = false;
  const auto totals = fixture.graph().Evaluate();
  ASSERT_TRUE(totals.ok()) << totals.status();
  const double tolerance = 1e-5 + 8 * Rounding(device());
  EXPECT_NEAR(totals->loss, fixture.ReferenceLoss(), tolerance * (1 + fixture.ReferenceLoss()));
  EXPECT_LE(totals->correct, 8u);
}

}  // namespace
}  // namespace downpour
