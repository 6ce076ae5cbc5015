// Small models of every kind of layer, joined in every way, and a graph beside its reference for any of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "job/job.h"
#include "model/graph.h"
#include "runtime/prng.h"
#include "tests/unit/model/reference_model.h"

namespace downpour {

inline LayerSpec Layer(std::string name, std::vector<std::string> from, decltype(LayerSpec::op) op) {
  return {std::move(name), std::move(from), std::move(op)};
}
inline DenseSpec Dense(int64_t units, Activation activation = Activation::kNone, bool bias = true) {
  return {units, activation, bias};
}

struct ModelCase {
  std::string name;
  ModelSpec model;
};

inline ModelSpec Model(std::vector<LayerSpec> layers, Loss loss = Loss::kSoftmaxCrossEntropy,
                       std::vector<InputSpec> inputs = {{"x", {5}}}) {
  return {std::move(inputs), std::move(layers), loss};
}

inline std::vector<VariableSpec> VariablesOf(const ModelSpec& model) { return InferVariables(model).value(); }

inline std::vector<ModelCase> ModelCases() {
  std::vector<ModelCase> cases;
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
  cases.push_back(
      {"CrossOfDcn", Model({Layer("a", {"x"}, Dense(5)), Layer("m", {"x", "a"}, MultiplySpec{}),
                            Layer("b", {"m", "x"}, AddSpec{}), Layer("c", {"b"}, Dense(5)),
                            Layer("n", {"b", "c", "c", "b"}, MultiplySpec{}), Layer("d", {"n"}, Dense(3))})});
  cases.push_back({"Dots", Model({Layer("a", {"x"}, Dense(4, Activation::kTanh)), Layer("b", {"x"}, Dense(4)),
                                  Layer("p", {"a", "y", "b", "a"}, DotSpec{}),
                                  Layer("all", {"p", "a", "b"}, ConcatSpec{}), Layer("d", {"all"}, Dense(3))},
                                 Loss::kSoftmaxCrossEntropy, {{"x", {5}}, {"y", {2, 4}}})});
  cases.push_back({"DotOfAMatrix", Model({Layer("p", {"y"}, DotSpec{}), Layer("d", {"p"}, Dense(3))},
                                         Loss::kSoftmaxCrossEntropy, {{"y", {3, 4}}})});
  cases.push_back({"MeanSquaredErrorOfClasses", Model({Layer("a", {"x"}, Dense(6, Activation::kTanh)),
                                                       Layer("b", {"a"}, Dense(3, Activation::kSigmoid))},
                                                      Loss::kMeanSquaredError)});
  cases.push_back(
      {"MeanSquaredErrorOfAValue",
       Model({Layer("a", {"x"}, Dense(6, Activation::kTanh)), Layer("b", {"a"}, Dense(1))}, Loss::kMeanSquaredError)});
  cases.push_back({"Sigmoids", Model({Layer("a", {"x"}, Dense(6, Activation::kTanh)), Layer("b", {"a"}, Dense(3))},
                                     Loss::kSigmoidCrossEntropy)});
  cases.push_back({"OneSigmoid", Model({Layer("a", {"x"}, Dense(6, Activation::kTanh)), Layer("b", {"a"}, Dense(1))},
                                       Loss::kSigmoidCrossEntropy)});
  return cases;
}

inline constexpr int64_t kMaxBatch = 8;
inline constexpr uint64_t kDrawSeed = 77;

// A graph and its reference with the same parameters and the same batch.
class GraphFixture {
 public:
  // The backend outlives this.
  GraphFixture(const ModelSpec& model, size_t batch, Backend& backend) {
    graph_ = std::move(*Graph::Create(model, kMaxBatch, backend));
    reference_ = {model, {}, true, kDrawSeed};
    for (const VariableSpec& spec : VariablesOf(model)) {
      reference_.variables.push_back(Floats(static_cast<size_t>(spec.elements()), 0.7));
      Set(reference_.variables.size() - 1);
    }
    for (size_t r = 0; r < batch; ++r) {
      inputs_.push_back(Floats(static_cast<size_t>(graph_->input_width()), 1));
      labels_.push_back(
          static_cast<int32_t>(random_.Below(static_cast<uint64_t>(std::max<int64_t>(2, graph_->output_width())))));
    }
    Load(0, batch);
  }

  Graph& graph() { return *graph_; }
  ReferenceModel& reference() { return reference_; }
  double ReferenceLoss() const { return reference_.Loss(inputs_, labels_); }
  const ReferenceModel::Rows& inputs() const { return inputs_; }
  const std::vector<int32_t>& labels() const { return labels_; }

  // Gradients by variable, in the order in which they left.
  VariableGradients Train(double* loss, uint64_t draw_seed = kDrawSeed, const BatchInStep& place = {}) {
    VariableGradients all;
    auto result = graph_->Train(
        draw_seed,
        [&](VariableGradients ready) {
          EXPECT_FALSE(ready.empty());
          for (auto& gradient : ready) all.push_back(std::move(gradient));
        },
        place);
    EXPECT_TRUE(result.ok()) << result.status();
    for (auto& gradient : result->last) all.push_back(std::move(gradient));
    *loss = result->loss;
    return all;
  }

  // The same examples as a step of batches of so many, the last one maybe fewer.
  VariableGradients TrainInBatchesOf(size_t size, double* loss) {
    VariableGradients all;
    for (size_t first = 0; first < labels_.size(); first += size) {
      EXPECT_TRUE(all.empty()) << "gradients left before the last batch";
      Load(first, std::min(size, labels_.size() - first));
      all = Train(loss, kDrawSeed, {static_cast<int64_t>(first), static_cast<int64_t>(labels_.size())});
    }
    return all;
  }

  // The gradient of the batch's mean loss by central differences: those of double precision have errors near 1e-9.
  std::vector<std::vector<double>> Slopes() {
    constexpr double kStep = 1e-5;
    std::vector<std::vector<double>> slopes = reference_.variables;
    for (size_t variable = 0; variable < slopes.size(); ++variable) {
      for (size_t i = 0; i < slopes[variable].size(); ++i) {
        double& value = reference_.variables[variable][i];
        const double kept = value;
        value = kept + kStep;
        const double above = ReferenceLoss();
        value = kept - kStep;
        const double below = ReferenceLoss();
        value = kept;
        slopes[variable][i] = (above - below) / (2 * kStep) / static_cast<double>(labels_.size());
      }
    }
    return slopes;
  }

 private:
  std::vector<double> Floats(size_t n, double scale) {
    std::vector<double> values(n);
    for (double& v : values) v = static_cast<float>(scale * (2 * random_.Uniform() - 1));
    return values;
  }
  void Load(size_t first, size_t count) {
    std::vector<float> flat;
    for (size_t r = first; r < first + count; ++r) flat.insert(flat.end(), inputs_[r].begin(), inputs_[r].end());
    EXPECT_TRUE(graph_->LoadBatch(flat, absl::MakeConstSpan(labels_).subspan(first, count)).ok());
  }
  void Set(size_t variable) {
    const std::vector<double>& values = reference_.variables[variable];
    const std::vector<float> floats(values.begin(), values.end());
    const size_t half = floats.size() / 2;  // in two pieces, as slices come
    EXPECT_TRUE(graph_->SetParameters(variable, 0, absl::MakeSpan(floats).first(half)).ok());
    EXPECT_TRUE(graph_->SetParameters(variable, static_cast<int64_t>(half), absl::MakeSpan(floats).subspan(half)).ok());
  }

  Prng random_{1};
  std::unique_ptr<Graph> graph_;
  ReferenceModel reference_;
  ReferenceModel::Rows inputs_;
  std::vector<int32_t> labels_;
};

inline bool SameBits(const VariableGradients& a, const VariableGradients& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) {
    same = a[i].first == b[i].first && a[i].second.size() == b[i].second.size() &&
           std::memcmp(a[i].second.data(), b[i].second.data(), a[i].second.size()) == 0;
  }
  return same;
}

}  // namespace downpour
