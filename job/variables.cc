#include "job/variables.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "job/nearest_name.h"

namespace downpour {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

// The product of a shape, or -1 where a dimension is not positive or the product exceeds kMaxModelElements.
int64_t BoundedProduct(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (int64_t dimension : shape) {
    if (dimension < 1 || dimension > kMaxModelElements / product) return -1;
    product *= dimension;
  }
  return product;
}

// Whether what the layer yields goes through a relu, in itself or in an activation that reads it.
bool FeedsRelu(const ModelSpec& model, const LayerSpec& layer) {
  const Activation own = std::get<DenseSpec>(layer.op).activation;
  if (own != Activation::kNone) return own == Activation::kRelu;
  return std::any_of(model.layers.begin(), model.layers.end(), [&](const LayerSpec& reader) {
    const auto* activation = std::get_if<ActivationSpec>(&reader.op);
    return activation != nullptr && activation->function == Activation::kRelu && reader.from.size() == 1 &&
           reader.from[0] == layer.name;
  });
}

using Shape = std::vector<int64_t>;
constexpr size_t kHints = 16;

// Walks the layers once. An empty shape stands for "unknown, and reported already".
class Inference {
 public:
  Inference(const ModelSpec& model, const ModelFaults& known) : model_(model), known_(known) {}

  ModelShapes Run() {
    for (size_t i = 0; i < model_.inputs.size(); ++i) {
      const InputSpec& input = model_.inputs[i];
      const bool faulty = known_.inputs.contains(i);
      const bool fits = !faulty && !input.shape.empty() && BoundedProduct(input.shape) > 0;
      if (!fits && !faulty) FailWhole("input ", input.name, " has an empty shape, a size below 1 or is too large");
      if (!shapes_.emplace(input.name, fits ? input.shape : Shape()).second && !faulty)
        FailWhole("two inputs are named ", input.name);
    }
    for (; layer_ < model_.layers.size(); ++layer_) {
      const LayerSpec& layer = model_.layers[layer_];
      const size_t before = result_.variables.size();
      result_.outputs.push_back(Output(layer));
      result_.variable_counts.push_back(result_.variables.size() - before);
      if (!shapes_.emplace(layer.name, result_.outputs.back()).second) Fail("another input or layer has the same name");
    }
    CheckWhole();
    return std::move(result_);
  }

 private:
  template <typename... Parts>
  void Fail(const Parts&... parts) {
    result_.errors.push_back({layer_, absl::StrCat(parts...)});
  }
  void FailWith(const char* remedy, std::string what) { result_.errors.push_back({layer_, std::move(what), remedy}); }
  template <typename... Parts>
  void FailWhole(const Parts&... parts) {
    result_.errors.push_back({model_.layers.size(), absl::StrCat(parts...)});
  }

  Shape Output(const LayerSpec& layer) {
    std::vector<Shape> from;
    bool known = true;
    for (const std::string& name : layer.from) {
      read_.insert(name);
      const auto it = shapes_.find(name);
      if (it == shapes_.end() && !known_.names)
        result_.errors.push_back(
            {layer_, absl::StrCat("reads ", name, ", which is no input and no earlier layer"), Hint(name)});
      known = known && it != shapes_.end() && !it->second.empty();
      if (known) from.push_back(it->second);
    }
    if (known_.layers.contains(layer_)) return {};
    const bool joins = std::visit([](const auto& op) { return Joins(op); }, layer.op);
    const bool may_join = joins || std::holds_alternative<DotSpec>(layer.op);
    if (const auto* embedding = std::get_if<EmbeddingSpec>(&layer.op)) return Embedding(layer, *embedding);
    if (joins && layer.from.size() < 2) Fail("needs two or more layers to read in from: [...]");
    if (!may_join && layer.from.size() != 1) {
      result_.errors.push_back({layer_, "reads exactly one layer", "join several with concat or add first"});
    }
    if (!known || (joins ? from.size() < 2 : may_join ? from.empty() : from.size() != 1)) return {};
    return std::visit([&](const auto& op) { return Yield(layer, op, from); }, layer.op);
  }

  // Each kind of layer: whether it reads two or more, and what it yields of what it reads. A kind that is missing here
  // does not compile.
  static bool Joins(const DenseSpec&) { return false; }
  static bool Joins(const ActivationSpec&) { return false; }
  static bool Joins(const DropoutSpec&) { return false; }
  static bool Joins(const AddSpec&) { return true; }
  static bool Joins(const MultiplySpec&) { return true; }
  static bool Joins(const DotSpec&) { return false; }  // it may
  static bool Joins(const ConcatSpec&) { return true; }
  static bool Joins(const EmbeddingSpec&) { return false; }
  Shape Yield(const LayerSpec& layer, const DenseSpec& dense, const std::vector<Shape>& from) {
    return Dense(layer, dense, from[0]);
  }
  Shape Yield(const LayerSpec&, const ActivationSpec&, const std::vector<Shape>& from) { return from[0]; }
  Shape Yield(const LayerSpec&, const DropoutSpec&, const std::vector<Shape>& from) { return from[0]; }
  Shape Yield(const LayerSpec& layer, const AddSpec&, const std::vector<Shape>& from) {
    return OneShape(layer, "adds ", from);
  }
  Shape Yield(const LayerSpec& layer, const MultiplySpec&, const std::vector<Shape>& from) {
    return OneShape(layer, "multiplies ", from);
  }
  Shape Yield(const LayerSpec& layer, const DotSpec&, const std::vector<Shape>& from) { return Dot(layer, from); }
  Shape Yield(const LayerSpec&, const ConcatSpec&, const std::vector<Shape>& from) { return Concat(from); }

  Shape Yield(const LayerSpec& layer, const EmbeddingSpec& embedding, const std::vector<Shape>&) {
    return Embedding(layer, embedding);
  }

  // It reads columns of the data, which the parser holds against them.
  Shape Embedding(const LayerSpec& layer, const EmbeddingSpec& embedding) {
    if (!layer.from.empty()) Fail("reads columns, and so no layer");
    const auto table = std::find_if(model_.tables.begin(), model_.tables.end(),
                                    [&](const ModelTable& known) { return known.name == embedding.table; });
    if (table == model_.tables.end() && known_.tables) return {};
    if (table == model_.tables.end()) {
      std::vector<std::string> names;
      for (const ModelTable& known : model_.tables) names.push_back(known.name);
      result_.errors.push_back({layer_,
                                absl::StrCat("reads table ", embedding.table, ", which is none of model.tables"),
                                WhatWasMeant(embedding.table, names)});
      return {};
    }
    if (table->width < 1) return {};  // which is reported already
    if (embedding.columns.size() < 2 || embedding.adds) return {table->width};
    return {static_cast<int64_t>(embedding.columns.size()), table->width};
  }

  // Costs a walk over all names, so only the first errors have one.
  std::string Hint(const std::string& name) const {
    if (result_.errors.size() >= kHints) return "";
    std::vector<std::string> known;
    for (const auto& [other, shape] : shapes_) known.push_back(other);
    return WhatWasMeant(name, known);
  }

  Shape Dense(const LayerSpec& layer, const DenseSpec& dense, const Shape& from) {
    VariableSpec kernel;
    kernel.name = layer.name + "/kernel";
    kernel.fan_in = BoundedProduct(from);
    kernel.fan_out = dense.units;
    kernel.shape = {kernel.fan_in, dense.units};
    kernel.initializer = FeedsRelu(model_, layer) ? Initializer::kHeUniform : Initializer::kGlorotUniform;
    const int64_t weights = BoundedProduct(kernel.shape);
    if (weights < 0 || weights + dense.units > kMaxModelElements - elements_) {
      Fail("with ", dense.units, " units on ", kernel.fan_in, " inputs the model leaves the range of 1 to ",
           kMaxModelElements, " parameters");
      return {};
    }
    elements_ += weights + (dense.bias ? dense.units : 0);
    result_.variables.push_back(std::move(kernel));
    if (dense.bias) result_.variables.push_back({layer.name + "/bias", {dense.units}, Initializer::kZeros, 0, 0});
    return {dense.units};
  }

  Shape OneShape(const LayerSpec& layer, const char* does, const std::vector<Shape>& from) {
    for (size_t i = 1; i < from.size(); ++i) {
      if (from[i] == from[0]) continue;
      Fail(does, layer.from[0], " of shape ", ShapeText(from[0]), " and ", layer.from[i], " of shape ",
           ShapeText(from[i]));
      return {};
    }
    return from[0];
  }

  Shape Dot(const LayerSpec& layer, const std::vector<Shape>& from) {
    int64_t vectors = 0;
    for (size_t i = 0; i < from.size(); ++i) {
      const Shape& shape = from[i];
      if (shape.size() > 2 || shape.back() != from[0].back()) {
        const std::string other = i == 0 ? "" : absl::StrCat(", beside ", layer.from[0], " of ", ShapeText(from[0]));
        FailWith("bring all to one width with dense first",
                 absl::StrCat("reads vectors of one width, as [width] or [n, width], but ", layer.from[i],
                              " is of shape ", ShapeText(shape), other));
        return {};
      }
      vectors += shape.size() == 2 ? shape[0] : 1;
      if (vectors > kMostDotVectors) break;
    }
    if (vectors >= 2 && vectors <= kMostDotVectors) return {vectors * (vectors - 1) / 2};
    FailWith("read an embedding of several columns, or several layers in from: [...]",
             absl::StrCat("needs 2 to ", kMostDotVectors, " vectors, but reads ",
                          vectors < 2 ? "one" : absl::StrCat("more than ", kMostDotVectors)));
    return {};
  }

  Shape Concat(const std::vector<Shape>& from) {
    int64_t width = 0;
    for (const Shape& shape : from) {
      width += BoundedProduct(shape);
      if (width <= kMaxModelElements) continue;
      Fail("is more than ", kMaxModelElements, " values wide");
      return {};
    }
    return {width};
  }

  void CheckWhole() {
    if (model_.layers.empty()) return FailWhole("the model has no layers");
    const bool readers_known = !known_.names && !known_.reads;
    for (const InputSpec& input : model_.inputs) {
      if (readers_known && !read_.contains(input.name)) FailWhole("no layer reads input ", input.name);
    }
    for (layer_ = 0; layer_ + 1 < model_.layers.size(); ++layer_) {
      if (readers_known && !read_.contains(model_.layers[layer_].name))
        Fail("no later layer reads it, and only the last one is the output");
    }
    const bool all_known = result_.errors.empty() && known_.inputs.empty() && known_.layers.empty() && !known_.tables;
    if (all_known && result_.variables.empty() && !model_.has_tables()) FailWhole("no layer has parameters to train");
    const Shape& output = result_.outputs.back();
    if (!known_.loss && model_.loss == Loss::kSoftmaxCrossEntropy && !output.empty() && BoundedProduct(output) < 2) {
      FailWhole("softmaxCrossEntropy needs an output of two values or more");
    }
  }

  const ModelSpec& model_;
  const ModelFaults& known_;
  size_t layer_ = 0;
  int64_t elements_ = 0;
  std::map<std::string, Shape> shapes_;  // of inputs and earlier layers
  std::set<std::string> read_;           // names that some layer reads
  ModelShapes result_;
};

absl::StatusOr<std::vector<VariableSpec>> OwnVariables(const std::vector<OwnVariableSpec>& own) {
  if (CountElements(own) < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model leaves the range of 1 to ", kMaxModelElements, " parameters"));
  }
  std::vector<VariableSpec> variables;
  for (const OwnVariableSpec& variable : own) {
    variables.push_back({.name = variable.name, .shape = variable.shape, .trainable = variable.trainable});
  }
  return variables;
}

absl::Status FirstError(const ModelSpec& model, const ModelShapes& shapes) {
  if (shapes.errors.empty()) return absl::OkStatus();
  const ModelShapes::Error& error = shapes.errors.front();
  const std::string place = error.layer < model.layers.size() ? "layer " + model.layers[error.layer].name : "model";
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", error.what));
}

}  // namespace

int64_t VariableSpec::elements() const {
  int64_t product = 1;
  for (int64_t dimension : shape) product *= dimension;
  return product;
}

ModelShapes InferShapes(const ModelSpec& model, const ModelFaults& known) { return Inference(model, known).Run(); }

int64_t CountElements(const std::vector<OwnVariableSpec>& variables) {
  int64_t total = 0;
  for (const OwnVariableSpec& variable : variables) {
    const int64_t elements = BoundedProduct(variable.shape);
    if (elements < 0 || elements > kMaxModelElements - total) return -1;
    total += elements;
  }
  return total;
}

absl::StatusOr<std::vector<VariableSpec>> InferVariables(const ModelSpec& model) {
  if (model.is_own()) return OwnVariables(model.variables);
  ModelShapes shapes = InferShapes(model);
  if (absl::Status status = FirstError(model, shapes); !status.ok()) return status;
  return std::move(shapes.variables);
}

absl::StatusOr<int64_t> InferOutputWidth(const ModelSpec& model) {
  const ModelShapes shapes = InferShapes(model);
  if (absl::Status status = FirstError(model, shapes); !status.ok()) return status;
  return BoundedProduct(shapes.outputs.back());
}

}  // namespace downpour
