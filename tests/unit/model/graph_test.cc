#include "model/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/prng.h"
#include "tensor/apply_kernels.h"
#include "tensor/host_backend.h"
#include "tests/parity/deferred_backend.h"
#include "tests/unit/model/model_cases.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class GraphTest : public testing::TestWithParam<ModelCase> {
 protected:
  const std::unique_ptr<Backend> backend_ = MakeHostBackend({});
};
INSTANTIATE_TEST_SUITE_P(Models, GraphTest, testing::ValuesIn(ModelCases()),
                         [](const auto& param) { return param.param.name; });

// What is seen is the rounding of the graph's floats: the tolerance is 30 of them, of a gradient's usual size.
TEST_P(GraphTest, GradientsAreThoseOfFiniteDifferences) {
  constexpr double kTolerance = 30 * 0x1p-23;
  for (size_t batch : {size_t{1}, size_t{5}, size_t{kMaxBatch}}) {
    GraphFixture fixture(GetParam().model, batch, *backend_);
    double loss = 0;
    const VariableGradients gradients = fixture.Train(&loss);
    EXPECT_NEAR(loss, fixture.ReferenceLoss(), 1e-6 * static_cast<double>(batch));
    const std::vector<std::vector<double>> slopes = fixture.Slopes();
    ASSERT_EQ(gradients.size(), slopes.size());
    for (const auto& [variable, payload] : gradients) {
      ASSERT_EQ(payload.floats().size(), slopes[variable].size());
      for (size_t i = 0; i < slopes[variable].size(); ++i) {
        ASSERT_NEAR(payload.floats()[i], slopes[variable][i], kTolerance)
            << "variable " << variable << " element " << i;
      }
    }
  }
}

TEST_P(GraphTest, EvaluationIsWithoutDropout) {
  GraphFixture fixture(GetParam().model, 5, *backend_);
  fixture.reference().training = false;
  auto totals = fixture.graph().Evaluate();
  ASSERT_TRUE(totals.ok()) << totals.status();
  EXPECT_NEAR(totals->loss, fixture.ReferenceLoss(), 1e-5);
  uint64_t correct = 0;
  const ReferenceModel::Rows outputs = fixture.reference().Forward(fixture.inputs());
  for (size_t r = 0; r < outputs.size(); ++r) {
    const auto best = std::max_element(outputs[r].begin(), outputs[r].end()) - outputs[r].begin();
    // Of a sigmoid the output is a logit: class 1 where it is above 0.
    const bool is_logit = GetParam().model.loss == Loss::kSigmoidCrossEntropy;
    const double single = is_logit ? 1 / (1 + std::exp(-outputs[r][0])) : outputs[r][0];
    correct += outputs[r].size() == 1 ? std::fabs(single - fixture.labels()[r]) < 0.5 : best == fixture.labels()[r];
  }
  EXPECT_EQ(totals->correct, correct);
}

TEST_P(GraphTest, LaterLayersLeaveFirstAndEveryVariableOnce) {
  GraphFixture fixture(GetParam().model, 5, *backend_);
  double loss = 0;
  std::vector<size_t> order;
  for (const auto& [variable, payload] : fixture.Train(&loss)) order.push_back(variable);
  ASSERT_EQ(order.size(), fixture.reference().variables.size());
  std::vector<size_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<size_t> all(order.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(sorted, all);
  const auto variables = VariablesOf(GetParam().model);
  const auto layer = [&](size_t v) { return variables[v].name.substr(0, variables[v].name.find('/')); };
  EXPECT_EQ(layer(order.back()), layer(0));
  EXPECT_EQ(layer(order.front()), layer(all.back()));
}

TEST_P(GraphTest, TheSameStepGivesTheSameBits) {
  GraphFixture one(GetParam().model, 5, *backend_), other(GetParam().model, 5, *backend_);
  double loss = 0, other_loss = 0;
  const VariableGradients gradients = one.Train(&loss);
  EXPECT_TRUE(SameBits(gradients, other.Train(&other_loss)));
  EXPECT_EQ(loss, other_loss);
  EXPECT_TRUE(SameBits(gradients, one.Train(&other_loss)));  // nothing is left over from the step before
  const bool draws = GetParam().name == "Dropout";
  EXPECT_EQ(SameBits(gradients, one.Train(&other_loss, kDrawSeed + 1)), !draws);
}

// Three arms of a spiral: what a linear model cannot tell apart, a small network learns.
TEST(GraphTrainingTest, LearnsWhatALinearModelCannot) {
  const size_t examples = 96;
  const ModelSpec model = Model({Layer("a", {"x"}, Dense(32, Activation::kTanh)),
                                 Layer("b", {"a"}, Dense(32, Activation::kRelu)), Layer("c", {"b"}, Dense(3))},
                                Loss::kSoftmaxCrossEntropy, {{"x", {2}}});
  std::unique_ptr<Backend> backend = MakeHostBackend({});
  auto graph = std::move(*Graph::Create(model, examples, *backend));
  std::vector<float> inputs;
  std::vector<int32_t> labels;
  for (size_t i = 0; i < examples; ++i) {
    const double arm = static_cast<double>(i % 3), radius = 0.1 + static_cast<double>(i / 3) / 32;
    const double angle = 2.1 * arm + 3 * radius;
    inputs.push_back(static_cast<float>(radius * std::cos(angle)));
    inputs.push_back(static_cast<float>(radius * std::sin(angle)));
    labels.push_back(static_cast<int32_t>(i % 3));
  }
  std::vector<std::vector<float>> values, velocity;
  Prng random(3);
  for (const VariableSpec& spec : VariablesOf(model)) {
    values.emplace_back(static_cast<size_t>(spec.elements()));
    for (float& v : values.back()) v = spec.fan_in > 0 ? static_cast<float>(random.Uniform() - 0.5) : 0.0f;
    velocity.emplace_back(values.back().size());
  }
  ASSERT_TRUE(graph->LoadBatch(inputs, labels).ok());
  for (int step = 0; step < 400; ++step) {
    for (size_t v = 0; v < values.size(); ++v) ASSERT_TRUE(graph->SetParameters(v, 0, values[v]).ok());
    const auto apply = [&](const VariableGradients& gradients) {
      for (const auto& [v, gradient] : gradients) {
        ASSERT_TRUE(ApplyUpdate(MomentumUpdate{0.1f, 0.9f}, gradient.floats(),
                                {{values[v].data(), values[v].data()}, {velocity[v].data(), velocity[v].data()}}));
      }
    };
    auto result = graph->Train(0, apply);
    ASSERT_TRUE(result.ok());
    apply(result->last);
  }
  const BatchTotals totals = *graph->Evaluate();
  EXPECT_EQ(totals.correct, examples);
  EXPECT_LT(totals.loss / static_cast<double>(examples), 0.05);
}

class GraphErrorsTest : public testing::Test {
 protected:
  const ModelSpec model_ = Model({Layer("a", {"x"}, Dense(3))});
  std::unique_ptr<Backend> backend_ = MakeHostBackend({});
  std::unique_ptr<Graph> graph_ = std::move(*Graph::Create(model_, kMaxBatch, *backend_));
};

TEST_F(GraphErrorsTest, AModelThatDoesNotFitIsRefusedByName) {
  const auto graph = Graph::Create(Model({Layer("a", {"nowhere"}, Dense(3))}), kMaxBatch, *backend_);
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("layer a"));
}

TEST_F(GraphErrorsTest, WithoutRoomOnTheDeviceTheBatchThatWouldFitIsNamed) {
  const ModelSpec wide = Model({Layer("a", {"x"}, Dense(1000))});  // 48,032 bytes, and 8,048 for each example
  const auto create = [&](int64_t batch) {
    DeferredBackend device(1 << 20);
    return Graph::Create(wide, batch, device).status();
  };
  const absl::Status status = create(1000);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("training.batchSize 1000 needs 7 MiB"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("a batchSize of 116 would fit"));
  EXPECT_TRUE(create(116).ok());
  EXPECT_FALSE(create(126).ok());

  DeferredBackend tiny(1000);
  EXPECT_THAT(std::string(Graph::Create(wide, 1, tiny).status().message()),
              HasSubstr("not even a batchSize of 1 would fit"));
}

// A device of which others take memory between the question and the answer.
class SharedBackend final : public DeferredBackend {
 public:
  using DeferredBackend::DeferredBackend;
  std::optional<uint64_t> free_memory() const override { return uint64_t{1} << 30; }
};

TEST_F(GraphErrorsTest, NoBatchIsNamedAsLargeAsTheOneThatFailed) {
  const ModelSpec wide = Model({Layer("a", {"x"}, Dense(1000))});
  for (const auto& [batch, named] : {std::pair{1000, "a batchSize of 999 would fit"},
                                     {2, "a batchSize of 1 would fit"},
                                     {1, "not even a batchSize of 1 would fit"}}) {
    SharedBackend device(1000);
    EXPECT_THAT(std::string(Graph::Create(wide, batch, device).status().message()),
                HasSubstr(absl::StrCat(": ", named)));
  }
}

TEST_F(GraphErrorsTest, ParametersOutsideAVariableAreRefused) {
  const std::vector<float> values(16);
  EXPECT_TRUE(graph_->SetParameters(0, 0, absl::MakeSpan(values).first(15)).ok());
  EXPECT_TRUE(graph_->SetParameters(0, 14, absl::MakeSpan(values).first(1)).ok());
  for (const auto& [variable, offset, count] :
       {std::tuple<size_t, int64_t, size_t>{0, 0, 16}, {0, 15, 1}, {0, -1, 1}, {2, 0, 1}, {0, INT64_MAX, 2}}) {
    EXPECT_EQ(graph_->SetParameters(variable, offset, absl::MakeSpan(values).first(count)).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(GraphErrorsTest, BatchesThatAreNotTheModelsAreRefused) {
  EXPECT_EQ(graph_->Evaluate().status().code(), absl::StatusCode::kFailedPrecondition);
  const std::vector<float> inputs(5 * (kMaxBatch + 1));
  const std::vector<int32_t> labels(kMaxBatch + 1);
  const auto load = [&](size_t values, size_t count) {
    return graph_->LoadBatch(absl::MakeSpan(inputs).first(values), absl::MakeSpan(labels).first(count)).code();
  };
  EXPECT_EQ(load(0, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(load(9, 2), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(load(inputs.size(), labels.size()), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(load(10, 2), absl::StatusCode::kOk);
  const absl::Status bytes = graph_->LoadBatch(std::vector<uint8_t>(10), {0, 1});
  EXPECT_EQ(bytes.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bytes.message()),
              HasSubstr("10 bytes and 2 labels are no batch of 1 to 8 examples of 5 floats"));
}

TEST_F(GraphErrorsTest, ABatchOutOfItsPlaceInTheStepIsRefused) {
  ASSERT_TRUE(graph_->LoadBatch(std::vector<float>(10), {0, 1}).ok());
  const auto train = [&](int64_t before, int64_t examples) {
    return graph_->Train(1, nullptr, {before, examples}).status().code();
  };
  EXPECT_EQ(train(2, 4), absl::StatusCode::kInvalidArgument) << "nothing came before";
  EXPECT_EQ(train(0, 1), absl::StatusCode::kInvalidArgument) << "more than the step has";
  EXPECT_EQ(train(0, 6), absl::StatusCode::kOk);
  EXPECT_EQ(train(4, 6), absl::StatusCode::kInvalidArgument) << "one is left out";
  EXPECT_EQ(train(2, 6), absl::StatusCode::kOk);
  EXPECT_EQ(train(4, 6), absl::StatusCode::kOk);
  EXPECT_EQ(train(4, 6), absl::StatusCode::kInvalidArgument) << "the step is over";
}

TEST(GraphMeanwhileTest, ComesOnceAStepAndOnlyWhereADeviceComputes) {
  const ModelSpec model = Model({Layer("a", {"x"}, Dense(3)), Layer("b", {"a"}, Dense(2))});
  const std::vector<VariableSpec> variables = VariablesOf(model);
  const std::vector<float> inputs(10, 0.5f);
  for (const bool on_device : {false, true}) {
    const std::unique_ptr<Backend> backend = on_device ? std::make_unique<DeferredBackend>() : MakeHostBackend({});
    const auto graph = std::move(*Graph::Create(model, kMaxBatch, *backend));
    for (size_t variable = 0; variable < variables.size(); ++variable) {
      const std::vector<float> values(static_cast<size_t>(variables[variable].elements()), 0.1f);
      ASSERT_TRUE(graph->SetParameters(variable, 0, values).ok());
    }
    std::string order;
    const auto meanwhile = [&] { order += "m"; };
    const auto ready = [&](const VariableGradients&) { order += "r"; };  // of layer b: those of the first one come last
    for (int64_t before : {0, 2}) {
      ASSERT_TRUE(graph->LoadBatch(inputs, {0, 1}).ok());
      ASSERT_TRUE(graph->Train(1, ready, {before, 4}, meanwhile).ok());
    }
    ASSERT_TRUE(graph->Evaluate(meanwhile).ok());
    EXPECT_EQ(order, on_device ? "mrm" : "r");
  }
}

// Outputs are 0 for parameters of 0, so the loss is that of the labels alone.
TEST(GraphNumbersTest, ALabelMayBeAnyNumber) {
  const ModelSpec model = Model({Layer("a", {"x"}, Dense(1))}, Loss::kMeanSquaredError, {{"x", {2}}});
  const std::unique_ptr<Backend> backend = MakeHostBackend({});
  const auto graph = std::move(*Graph::Create(model, kMaxBatch, *backend));
  ASSERT_TRUE(graph->SetParameters(0, 0, {0, 0}).ok());
  ASSERT_TRUE(graph->SetParameters(1, 0, {0}).ok());
  const std::vector<float> inputs(4, 1.0f), numbers = {1.5f, -0.5f};
  ASSERT_TRUE(graph->LoadBatch(inputs, {0, 0}, numbers).ok());
  EXPECT_DOUBLE_EQ(graph->Evaluate()->loss, 1.5 * 1.5 + 0.5 * 0.5);
  ASSERT_TRUE(graph->LoadBatch(inputs, {2, 0}).ok());
  EXPECT_DOUBLE_EQ(graph->Evaluate()->loss, 4) << "a whole number stands for itself";
  EXPECT_EQ(graph->LoadBatch(inputs, {0, 0}, absl::MakeConstSpan(numbers).first(1)).code(),
            absl::StatusCode::kInvalidArgument);
}

// Of parameters of 0 each output is 0, whose sigmoid is a half.
TEST(GraphNumbersTest, ExamplesHaveWeightsAndSetsOfClasses) {
  const ModelSpec model = Model({Layer("a", {"x"}, Dense(2))}, Loss::kSigmoidCrossEntropy, {{"x", {2}}});
  const std::unique_ptr<Backend> backend = MakeHostBackend({});
  const auto graph = std::move(*Graph::Create(model, kMaxBatch, *backend, {.is_weighted = true, .has_sets = true}));
  ASSERT_TRUE(graph->SetParameters(0, 0, {0, 0, 0, 0}).ok());
  ASSERT_TRUE(graph->SetParameters(1, 0, {0, 0}).ok());
  const std::vector<float> inputs(4, 1.0f), sets = {1, 0, 1, 1}, weights = {2, 0.5};
  ASSERT_TRUE(graph->LoadBatch(inputs, {0, 0}, sets, weights).ok());
  EXPECT_NEAR(graph->Evaluate()->loss, 2.5 * std::log(2), 1e-6);
  std::vector<float> outputs(4);
  ASSERT_TRUE(graph->ReadOutputs(absl::MakeSpan(outputs)).ok());
  EXPECT_EQ(outputs, std::vector<float>(4, 0.5f)) << "probabilities";
  const auto trained = graph->Train(1, [](VariableGradients) {});
  ASSERT_TRUE(trained.ok());
  EXPECT_NEAR(trained->loss, 2.5 * std::log(2), 1e-6);
  // Of the bias: over the batch's two examples and two outputs, weight times (a half - target).
  EXPECT_THAT(trained->last[1].second.floats(), ElementsAre(-1.25f / 4, 0.75f / 4));
  EXPECT_EQ(graph->LoadBatch(inputs, {0, 0}, sets).code(), absl::StatusCode::kInvalidArgument) << "no weights";
  EXPECT_EQ(graph->LoadBatch(inputs, {0, 0}, absl::MakeConstSpan(sets).first(2), weights).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(GraphErrorsTest, ALabelBeyondTheOutputIsNamed) {
  for (int32_t label : {3, -1}) {
    const absl::Status status = graph_->LoadBatch(std::vector<float>(5), {label});
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(status.message()), HasSubstr("label " + std::to_string(label)));
    EXPECT_THAT(std::string(status.message()), HasSubstr("3 units"));
  }
}

}  // namespace
}  // namespace downpour
