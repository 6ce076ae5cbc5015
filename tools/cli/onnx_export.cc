#include "tools/cli/onnx_export.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "job/variables.h"
#include "tools/cli/new_file.h"
#include "tools/cli/onnx_graph.h"

namespace downpour {
namespace {

constexpr int64_t kMostBytes = (int64_t{1} << 31) - (1 << 20);  // of protocol buffers, with room for the graph
constexpr float kByteDivisor = 255;

// A layer's output, flat: [N, width].
struct Flat {
  std::string name;
  int64_t width = 1;
};

int64_t NumbersOf(const std::vector<int64_t>& shape) {
  int64_t numbers = 1;
  for (const int64_t size : shape) numbers *= size;
  return numbers;
}

class Exporter {
 public:
  Exporter(const LoadedCheckpoint& checkpoint)
      : checkpoint_(checkpoint),
        model_(checkpoint.job.model),
        shapes_(InferShapes(model_)),
        graph_(checkpoint.job.name) {}

  std::string Export() {
    for (const InputSpec& input : model_.inputs) AddInput(input);
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      const LayerSpec& layer = model_.layers[i];
      std::vector<Flat> from;
      for (const std::string& name : layer.from) from.push_back(flats_.at(name));
      const std::string output =
          std::visit([&](const auto& op) { return Add(layer.name, shapes_.outputs[i], op, from); }, layer.op);
      flats_[layer.name] = {output, NumbersOf(shapes_.outputs[i])};
    }
    AddOutputs(flats_.at(model_.layers.back().name));
    return std::move(graph_).Finish(
        {{"job", CanonicalJob(checkpoint_.job)}, {"checkpoint", ToString(checkpoint_.manifest.round)}});
  }

 private:
  void AddInput(const InputSpec& input) {
    std::string name = graph_.AddInput(input.name, OnnxType::kFloat, input.shape);
    name = Flattened(name, input.shape);
    // As training has bytes.
    if (!checkpoint_.job.data.has_records()) name = graph_.AddNode("Div", {name, Scalar(kByteDivisor)});
    flats_[input.name] = {name, NumbersOf(input.shape)};
  }

  std::string Flattened(const std::string& name, const std::vector<int64_t>& shape) {
    return shape.size() == 1 ? name : graph_.AddNode("Flatten", {name}, {{"axis", 1}});
  }
  std::string Scalar(float value) {
    return graph_.AddConstant(absl::StrCat("number_", next_++), OnnxType::kFloat, {},
                              AsBytes(absl::MakeConstSpan(&value, 1)));
  }
  std::string Integers(const std::vector<int64_t>& values) {
    return graph_.AddConstant(absl::StrCat("numbers_", next_++), OnnxType::kInt64,
                              {static_cast<int64_t>(values.size())}, AsBytes(absl::MakeConstSpan(values)));
  }
  template <typename T>
  static absl::Span<const std::byte> AsBytes(absl::Span<const T> values) {
    return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
  }

  // The next one of the model's, which are numbered in the order of the layers.
  std::string NextVariable() {
    const VariableSpec& spec = checkpoint_.grid.variables[variable_];
    std::vector<std::byte> values;
    for (size_t s = 0; s < checkpoint_.grid.dense(); ++s) {
      if (checkpoint_.grid.slices[s].variable != variable_) continue;
      const absl::Span<const std::byte> bytes = checkpoint_.slices[s].values.bytes();
      values.insert(values.end(), bytes.begin(), bytes.end());
    }
    ++variable_;
    return graph_.AddConstant(spec.name, OnnxType::kFloat, spec.shape, values);
  }

  std::string Activated(Activation activation, const std::string& from) {
    switch (activation) {
      case Activation::kNone:
        return from;
      case Activation::kRelu:
        return graph_.AddNode("Relu", {from});
      case Activation::kSigmoid:
        return graph_.AddNode("Sigmoid", {from});
      case Activation::kTanh:
        return graph_.AddNode("Tanh", {from});
    }
    return from;
  }

  using Shape = std::vector<int64_t>;

  std::string Add(const std::string&, const Shape&, const DenseSpec& dense, const std::vector<Flat>& from) {
    std::vector<std::string> inputs = {from[0].name, NextVariable()};
    if (dense.bias) inputs.push_back(NextVariable());
    return Activated(dense.activation, graph_.AddNode("Gemm", inputs));
  }
  std::string Add(const std::string&, const Shape&, const ActivationSpec& activation, const std::vector<Flat>& from) {
    return Activated(activation.function, from[0].name);
  }
  std::string Add(const std::string&, const Shape&, const DropoutSpec&, const std::vector<Flat>& from) {
    return from[0].name;  // of training alone
  }
  std::string Add(const std::string&, const Shape&, const AddSpec&, const std::vector<Flat>& from) {
    return graph_.AddNode("Sum", NamesOf(from));
  }
  std::string Add(const std::string&, const Shape&, const MultiplySpec&, const std::vector<Flat>& from) {
    std::string product = from[0].name;
    for (size_t i = 1; i < from.size(); ++i) product = graph_.AddNode("Mul", {product, from[i].name});
    return product;
  }
  std::string Add(const std::string&, const Shape&, const ConcatSpec&, const std::vector<Flat>& from) {
    return graph_.AddNode("Concat", NamesOf(from), {{"axis", 1}});
  }
  std::string Add(const std::string& name, const Shape& shape, const EmbeddingSpec&, const std::vector<Flat>&) {
    return Flattened(graph_.AddInput(name, OnnxType::kFloat, shape), shape);
  }
  // All products, of which those above the diagonal are taken.
  std::string Add(const std::string&, const Shape& shape, const DotSpec&, const std::vector<Flat>& from) {
    const int64_t pairs = NumbersOf(shape);
    int64_t vectors = 2, width = 0;
    while (vectors * (vectors - 1) / 2 < pairs) ++vectors;
    for (const Flat& one : from) width += one.width;
    const std::string flat = from.size() == 1 ? from[0].name : graph_.AddNode("Concat", NamesOf(from), {{"axis", 1}});
    const std::string stacked = graph_.AddNode("Reshape", {flat, Integers({-1, vectors, width / vectors})});
    const std::string turned = graph_.AddNode("Transpose", {stacked}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
    const std::string products =
        graph_.AddNode("Flatten", {graph_.AddNode("MatMul", {stacked, turned})}, {{"axis", 1}});
    std::vector<int64_t> above;
    for (int64_t i = 0; i < vectors; ++i) {
      for (int64_t j = i + 1; j < vectors; ++j) above.push_back(i * vectors + j);
    }
    return graph_.AddNode("Gather", {products, Integers(above)}, {{"axis", 1}});
  }

  static std::vector<std::string> NamesOf(const std::vector<Flat>& flats) {
    std::vector<std::string> names;
    for (const Flat& flat : flats) names.push_back(flat.name);
    return names;
  }

  // A single one tells class 1 from class 0, whose logit counts as 0.
  void AddSigmoids(const Flat& output) {
    graph_.AddOutput(output.width == 1 ? "probability" : "probabilities", OnnxType::kFloat, {output.width},
                     graph_.AddNode("Sigmoid", {output.name}));
    std::string logits = output.name;
    if (output.width == 1) {
      logits = graph_.AddNode("Concat", {graph_.AddNode("Mul", {output.name, Scalar(0)}), output.name}, {{"axis", 1}});
    }
    graph_.AddOutput("class", OnnxType::kInt64, {}, graph_.AddNode("ArgMax", {logits}, {{"axis", 1}, {"keepdims", 0}}));
  }

  void AddOutputs(const Flat& output) {
    if (model_.loss == Loss::kSigmoidCrossEntropy) return AddSigmoids(output);
    const bool has_probabilities = model_.loss == Loss::kSoftmaxCrossEntropy;
    if (!has_probabilities && output.width == 1) {
      const LabelSpec& label = checkpoint_.job.data.label;
      const std::string scaled = graph_.AddNode("Mul", {output.name, Scalar(static_cast<float>(label.deviation))});
      graph_.AddOutput("prediction", OnnxType::kFloat, {1},
                       graph_.AddNode("Add", {scaled, Scalar(static_cast<float>(label.mean))}));
      return;
    }
    const std::string shares =
        has_probabilities ? graph_.AddNode("Softmax", {output.name}, {{"axis", 1}}) : output.name;
    graph_.AddOutput(has_probabilities ? "probabilities" : "scores", OnnxType::kFloat, {output.width}, shares);
    graph_.AddOutput("class", OnnxType::kInt64, {},
                     graph_.AddNode("ArgMax", {output.name}, {{"axis", 1}, {"keepdims", 0}}));
  }

  const LoadedCheckpoint& checkpoint_;
  const ModelSpec& model_;
  const ModelShapes shapes_;
  OnnxGraph graph_;
  std::map<std::string, Flat> flats_;  // by input and layer
  uint32_t variable_ = 0;
  int next_ = 0;
};

}  // namespace

absl::StatusOr<std::string> OnnxModelOf(const LoadedCheckpoint& checkpoint) {
  if (checkpoint.job.model.is_own()) {
    return absl::UnimplementedError(
        "ONNX has layers, and only the job's Python code knows how its variables are computed with: use --format "
        "safetensors");
  }
  int64_t bytes = 0;
  for (const VariableSpec& variable : checkpoint.grid.variables) bytes += variable.elements() * int64_t{sizeof(float)};
  if (bytes > kMostBytes) {
    return absl::OutOfRangeError(absl::StrCat("the model's ", bytes,
                                              " bytes are more than the 2 GiB that a file of ONNX ",
                                              "may have: use --format safetensors"));
  }
  return Exporter(checkpoint).Export();
}

absl::Status ExportAsOnnx(const LoadedCheckpoint& checkpoint, const std::string& path) {
  const absl::StatusOr<std::string> model = OnnxModelOf(checkpoint);
  if (!model.ok()) return model.status();
  NewFile file(path);
  file.WriteAt(0, {reinterpret_cast<const std::byte*>(model->data()), model->size()});
  return file.Commit();
}

}  // namespace downpour
