#include "worker/model/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/prng.h"
#include "tensor/apply_kernels.h"
#include "tensor/host_backend.h"
#include "tests/unit/worker/reference_model.h"

namespace downpour {
namespace {

using testing::HasSubstr;

LayerSpec Layer(std::string name, std::vector<std::string> from,
                std::variant<DenseSpec, ActivationSpec, DropoutSpec, AddSpec, ConcatSpec> op) {
  return {std::move(name), std::move(from), std::move(op)};
}
DenseSpec Dense(int64_t units, Activation activation = Activation::kNone, bool bias = true) {
  return {units, activation, bias};
}

struct Case {
  std::string name;
  ModelSpec model;
};

ModelSpec Model(std::vector<LayerSpec> layers, Loss loss = Loss::kSoftmaxCrossEntropy,
                std::vector<InputSpec> inputs = {{"x", {5}}}) {
  return {std::move(inputs), std::move(layers), loss};
}

std::vector<VariableSpec> VariablesOf(const ModelSpec& model) { return InferVariables(model).value(); }

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (auto [name, f] : {std::pair{"Relu", Activation::kRelu},
                         {"Sigmoid", Activation::kSigmoid},
                         {"Tanh", Activation::kTanh},
                         {"Linear", Activation::kNone}}) {
    cases.push_back({std::string("Dense") + name, Model({Layer("a", {"x"}, Dense(7, f)), Layer("b", {"a"}, Dense(4, f)),
                                                         Layer("c", {"b"}, Dense(3))})});
  }
  cases.push_back({"NoBias", Model({Layer("a", {"x"}, Dense(6, Activation::kTanh, false)),
                                    Layer("b", {"a"}, Dense(3, Activation::kNone, false))})});
  cases.push_back(
      {"ActivationLayers", Model({Layer("a", {"x"}, Dense(6)), Layer("s", {"a"}, ActivationSpec{Activation::kSigmoid}),
                                  Layer("b", {"s"}, Dense(4)), Layer("t", {"b"}, ActivationSpec{Activation::kTanh}),
                                  Layer("c", {"t"}, Dense(3))})});
  cases.push_back(
      {"Dropout", Model({Layer("in", {"x"}, DropoutSpec{0.2}), Layer("a", {"in"}, Dense(9, Activation::kTanh)),
                         Layer("d", {"a"}, DropoutSpec{0.5}), Layer("b", {"d"}, Dense(3))})});
  cases.push_back({"Residual", Model({Layer("a", {"x"}, Dense(6, Activation::kTanh)),
                                      Layer("b", {"a"}, Dense(6, Activation::kTanh)),
                                      Layer("sum", {"a", "b", "a"}, AddSpec{}), Layer("c", {"sum"}, Dense(3))})});
  cases.push_back(
      {"WideAndDeep", Model({Layer("deep", {"x"}, Dense(6, Activation::kTanh)),
                             Layer("both", {"deep", "y", "x"}, ConcatSpec{}), Layer("c", {"both"}, Dense(3))},
                            Loss::kSoftmaxCrossEntropy, {{"x", {2, 3}}, {"y", {2}}})});
  cases.push_back(
      {"ConcatOfReaders", Model({Layer("a", {"x"}, Dense(4, Activation::kTanh)), Layer("b", {"a"}, Dense(3)),
                                 Layer("s", {"a"}, ActivationSpec{Activation::kSigmoid}),
                                 Layer("both", {"s", "b", "a"}, ConcatSpec{}), Layer("c", {"both"}, Dense(2))})});
  cases.push_back({"AddIsTheOutput", Model({Layer("a", {"x"}, Dense(3)), Layer("b", {"x"}, Dense(3)),
                                            Layer("sum", {"a", "b"}, AddSpec{})})});
  cases.push_back({"MeanSquaredErrorOfClasses", Model({Layer("a", {"x"}, Dense(6, Activation::kTanh)),
                                                       Layer("b", {"a"}, Dense(3, Activation::kSigmoid))},
                                                      Loss::kMeanSquaredError)});
  cases.push_back(
      {"MeanSquaredErrorOfAValue",
       Model({Layer("a", {"x"}, Dense(6, Activation::kTanh)), Layer("b", {"a"}, Dense(1))}, Loss::kMeanSquaredError)});
  return cases;
}

constexpr int64_t kMaxBatch = 8;
constexpr uint64_t kDrawSeed = 77;

// A graph and its reference with the same parameters and the same batch.
class GraphFixture {
 public:
  GraphFixture(const ModelSpec& model, size_t batch, uint64_t seed = 1) : random_(seed) {
    graph_ = std::move(*Graph::Create(model, kMaxBatch, *backend_));
    reference_ = {model, {}, true, kDrawSeed};
    for (const VariableSpec& spec : VariablesOf(model)) {
      reference_.variables.push_back(Floats(static_cast<size_t>(spec.elements()), 0.7));
      Set(reference_.variables.size() - 1);
    }
    std::vector<float> flat;
    for (size_t r = 0; r < batch; ++r) {
      inputs_.push_back(Floats(static_cast<size_t>(graph_->input_width()), 1));
      flat.insert(flat.end(), inputs_.back().begin(), inputs_.back().end());
      labels_.push_back(
          static_cast<int32_t>(random_.Below(static_cast<uint64_t>(std::max<int64_t>(2, graph_->output_width())))));
    }
    EXPECT_TRUE(graph_->LoadBatch(flat, labels_).ok());
  }

  Graph& graph() { return *graph_; }
  ReferenceModel& reference() { return reference_; }
  double ReferenceLoss() const { return reference_.Loss(inputs_, labels_); }
  const ReferenceModel::Rows& inputs() const { return inputs_; }
  const std::vector<int32_t>& labels() const { return labels_; }

  // Gradients by variable, in the order in which they left.
  VariableGradients Train(double* loss, uint64_t draw_seed = kDrawSeed) {
    VariableGradients all;
    auto result = graph_->Train(draw_seed, [&](VariableGradients ready) {
      EXPECT_FALSE(ready.empty());
      for (auto& gradient : ready) all.push_back(std::move(gradient));
    });
    EXPECT_TRUE(result.ok()) << result.status();
    for (auto& gradient : result->last) all.push_back(std::move(gradient));
    *loss = result->loss;
    return all;
  }

 private:
  std::vector<double> Floats(size_t n, double scale) {
    std::vector<double> values(n);
    for (double& v : values) v = static_cast<float>(scale * (2 * random_.Uniform() - 1));
    return values;
  }
  void Set(size_t variable) {
    const std::vector<double>& values = reference_.variables[variable];
    const std::vector<float> floats(values.begin(), values.end());
    const size_t half = floats.size() / 2;  // in two pieces, as slices come
    EXPECT_TRUE(graph_->SetParameters(variable, 0, absl::MakeSpan(floats).first(half)).ok());
    EXPECT_TRUE(graph_->SetParameters(variable, static_cast<int64_t>(half), absl::MakeSpan(floats).subspan(half)).ok());
  }

  std::unique_ptr<Backend> backend_ = MakeHostBackend({});
  Prng random_;
  std::unique_ptr<Graph> graph_;
  ReferenceModel reference_;
  ReferenceModel::Rows inputs_;
  std::vector<int32_t> labels_;
};

class GraphTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Models, GraphTest, testing::ValuesIn(Cases()),
                         [](const auto& param) { return param.param.name; });

// Central differences in double have errors near 1e-9, so what is seen is the rounding of the graph's floats: the
// tolerance is 30 of them, of a gradient's usual size.
TEST_P(GraphTest, GradientsAreThoseOfFiniteDifferences) {
  constexpr double kStep = 1e-5, kTolerance = 30 * 0x1p-23;
  for (size_t batch : {size_t{1}, size_t{5}, size_t{kMaxBatch}}) {
    GraphFixture fixture(GetParam().model, batch);
    double loss = 0;
    const VariableGradients gradients = fixture.Train(&loss);
    EXPECT_NEAR(loss, fixture.ReferenceLoss(), 1e-6 * static_cast<double>(batch));
    ASSERT_EQ(gradients.size(), fixture.reference().variables.size());
    for (const auto& [variable, payload] : gradients) {
      std::vector<double>& values = fixture.reference().variables[variable];
      ASSERT_EQ(payload.floats().size(), values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        const double kept = values[i];
        values[i] = kept + kStep;
        const double above = fixture.ReferenceLoss();
        values[i] = kept - kStep;
        const double below = fixture.ReferenceLoss();
        values[i] = kept;
        const double slope = (above - below) / (2 * kStep) / static_cast<double>(batch);
        ASSERT_NEAR(payload.floats()[i], slope, kTolerance) << "variable " << variable << " element " << i;
      }
    }
  }
}

TEST_P(GraphTest, EvaluationIsWithoutDropout) {
  GraphFixture fixture(GetParam().model, 5);
  fixture.reference().training = false;
  auto totals = fixture.graph().Evaluate();
  ASSERT_TRUE(totals.ok()) << totals.status();
  EXPECT_NEAR(totals->loss, fixture.ReferenceLoss(), 1e-5);
  uint64_t correct = 0;
  const ReferenceModel::Rows outputs = fixture.reference().Forward(fixture.inputs());
  for (size_t r = 0; r < outputs.size(); ++r) {
    const auto best = std::max_element(outputs[r].begin(), outputs[r].end()) - outputs[r].begin();
    correct +=
        outputs[r].size() == 1 ? std::fabs(outputs[r][0] - fixture.labels()[r]) < 0.5 : best == fixture.labels()[r];
  }
  EXPECT_EQ(totals->correct, correct);
}

TEST_P(GraphTest, LaterLayersLeaveFirstAndEveryVariableOnce) {
  GraphFixture fixture(GetParam().model, 5);
  double loss = 0;
  std::vector<size_t> order;
  for (const auto& [variable, payload] : fixture.Train(&loss)) order.push_back(variable);
  ASSERT_EQ(order.size(), fixture.graph().variable_count());
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

bool SameBits(const VariableGradients& a, const VariableGradients& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) {
    same = a[i].first == b[i].first && a[i].second.size() == b[i].second.size() &&
           std::memcmp(a[i].second.data(), b[i].second.data(), a[i].second.size()) == 0;
  }
  return same;
}

TEST_P(GraphTest, TheSameStepGivesTheSameBits) {
  GraphFixture one(GetParam().model, 5), other(GetParam().model, 5);
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
