#include "bench/bench_gpu_model.h"

#include <chrono>
#include <variant>

#include "job/variables.h"

namespace downpour {
namespace {

ModelSpec Perceptron(std::vector<int64_t> input, const std::vector<int64_t>& units) {
  ModelSpec model;
  model.inputs = {{"image", std::move(input)}};
  std::string from = "image";
  for (size_t i = 0; i < units.size(); ++i) {
    const bool last = i + 1 == units.size();
    const std::string name = "dense_" + std::to_string(i);
    model.layers.push_back({name, {from}, DenseSpec{units[i], last ? Activation::kNone : Activation::kRelu, true}});
    from = name;
  }
  return model;
}

}  // namespace

ModelSpec LargeModel() { return Perceptron({kLargeImageSide, kLargeImageSide, 1}, {8192, 8192, 4096}); }
ModelSpec SquareModel(int64_t width) { return Perceptron({width, 1, 1}, {width, width, width}); }
ModelSpec SmallModel() { return Perceptron({28, 28, 1}, {256, 128, 10}); }

std::vector<ProductShape> ProductsOfStep(const ModelSpec& model, int64_t batch) {
  std::vector<ProductShape> products;
  int64_t in = 1;
  for (int64_t dimension : model.inputs[0].shape) in *= dimension;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const int64_t out = std::get<DenseSpec>(model.layers[i].op).units;
    products.push_back({Transpose::kPlain, Transpose::kPlain, batch, out, in});
    products.push_back({Transpose::kTransposed, Transpose::kPlain, in, out, batch});
    if (i > 0) products.push_back({Transpose::kPlain, Transpose::kTransposed, batch, in, out});
    in = out;
  }
  return products;
}

std::vector<float> RandomNumbers(size_t count) {
  std::vector<float> numbers(count);
  uint32_t state = 1;
  for (float& number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  return numbers;
}

std::unique_ptr<Backend> OpenGpu(const CudaModule& module, int device, Precision precision,
                                 const CudaOptions& options) {
  std::unique_ptr<Backend> backend = OrDie(module.make_backend(device, options));
  backend->UsePrecision(precision);
  return backend;
}

std::unique_ptr<Graph> LoadedGraph(const ModelSpec& model, int64_t batch, Backend& backend) {
  std::unique_ptr<Graph> graph = OrDie(Graph::Create(model, batch, backend));
  const std::vector<VariableSpec> variables = OrDie(InferVariables(model));
  for (size_t i = 0; i < variables.size(); ++i) {
    std::vector<float> values = RandomNumbers(static_cast<size_t>(variables[i].elements()));
    for (float& value : values) value *= 0.02f;  // activations neither vanish nor grow without bounds
    OrDie(graph->SetParameters(i, 0, values));
  }
  const std::vector<float> inputs = RandomNumbers(static_cast<size_t>(batch * graph->input_width()));
  std::vector<int32_t> labels(static_cast<size_t>(batch));
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i % 10);
  OrDie(graph->LoadBatch(inputs, labels));
  return graph;
}

double SecondsOfEach(Backend& backend, int count, const std::function<absl::Status()>& run) {
  for (int i = 0; i < count; ++i) OrDie(run());
  OrDie(backend.Synchronize());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) OrDie(run());
  OrDie(backend.Synchronize());
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return taken.count() / count;
}

}  // namespace downpour
