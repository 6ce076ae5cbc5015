#include "model/graph.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/prng.h"
#include "tensor/bf16.h"

namespace downpour {
namespace {

int64_t WidthOf(const std::vector<int64_t>& shape) {
  int64_t width = 1;
  for (int64_t dimension : shape) width *= dimension;
  return width;
}

// The first layer's gradients are kept: they leave with the step's end. Embeddings have none that leave so.
void HandOut(VariableGradients gradients, const Graph::Ready& ready, VariableGradients* last) {
  if (gradients.empty()) return;
  if (gradients.front().first == 0) {
    *last = std::move(gradients);
  } else {
    ready(std::move(gradients));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Graph>> Graph::Create(const ModelSpec& model, int64_t max_batch, Backend& backend,
                                                     const ExampleKind& examples) {
  std::unique_ptr<Graph> graph(new Graph(max_batch, backend, examples));
  const std::optional<uint64_t> available = backend.free_memory();
  absl::Status status = graph->Build(model);
  if (status.ok() && !backend.memory_is_host()) status = graph->WarmUp();
  if (status.ok()) return graph;
  if (!absl::IsResourceExhausted(status) || !available) return status;
  return graph->OutOfMemoryError(model, *available, status);
}

absl::StatusOr<std::unique_ptr<Graph>> Graph::CreateForward(const ModelSpec& model, int64_t max_batch, Backend& backend,
                                                            std::shared_ptr<const Graph> parameters) {
  std::unique_ptr<Graph> graph(new Graph(max_batch, backend, {}));
  graph->only_forward_ = true;
  graph->owner_ = std::move(parameters);
  if (absl::Status status = graph->Build(model); !status.ok()) return status;
  return graph;
}

absl::Status Graph::Build(const ModelSpec& model) {
  auto variables = InferVariables(model);  // refuses whatever does not fit, so that the rest need not look again
  if (!variables.ok()) return variables.status();
  if (absl::Status status = AddParameters(*std::move(variables)); !status.ok()) return status;
  if (absl::Status status = AddLayers(model); !status.ok()) return status;
  int64_t input_width = 0;
  for (const Node& node : nodes_) input_width += node.layer == nullptr ? node.output.cols : 0;
  const auto allocate = [this](auto... matrix) { return AllocateMatrix(matrix...); };
  const BatchMemory::Shapes batches{max_batch_, input_width, examples_, output_width(), model.loss};
  if (absl::Status status = batches_.Allocate(batches, allocate); !status.ok()) return status;
  PlanBackward();
  if (absl::Status status = AddEmbeddingGradients(); !status.ok()) return status;
  if (absl::Status status = AddSeeds(model); !status.ok()) return status;
  return AddTotals();
}

absl::Status Graph::AddLayers(const ModelSpec& model) {
  const ModelShapes shapes = InferShapes(model);
  for (const InputSpec& input : model.inputs) nodes_.emplace_back().output.cols = WidthOf(input.shape);
  std::map<std::string, size_t> by_name;
  for (size_t i = 0; i < model.inputs.size(); ++i) by_name[model.inputs[i].name] = i;
  size_t next_variable = 0;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerSpec& layer = model.layers[i];
    std::vector<size_t> from;
    for (const std::string& name : layer.from) from.push_back(by_name.at(name));
    if (absl::Status status = JoinFirst(layer, &from); !status.ok()) return status;
    by_name[layer.name] = nodes_.size();
    if (std::holds_alternative<EmbeddingSpec>(layer.op)) {
      embeddings_.push_back(nodes_.size());
      Node& node = nodes_.emplace_back();
      node.output.cols = WidthOf(shapes.outputs[i]);
      node.trainable = !only_forward_;
      continue;
    }
    // The last one's output goes into the loss, with all bits.
    const FloatFormat output = i + 1 == model.layers.size() ? FloatFormat::kFp32 : FloatFormat::kFactor;
    std::vector<size_t> own(shapes.variable_counts[i]);
    for (size_t& variable : own) variable = next_variable++;
    absl::Status status = AddLayer(layer, WidthOf(shapes.outputs[i]), output, std::move(from), std::move(own));
    if (!status.ok()) return status;
  }
  if (nodes_.back().layer != nullptr) return absl::OkStatus();
  // What the batch brings may be rounded, and is a part of its rows: as the output it is copied.
  const LayerSpec copy{model.layers.back().name, {}, ActivationSpec{Activation::kNone}};
  return AddLayer(copy, nodes_.back().output.cols, FloatFormat::kFp32, {nodes_.size() - 1}, {});
}

// Nodes without a name take the place of some of what the layer reads: products by two and two, and what dot stacks.
absl::Status Graph::JoinFirst(const LayerSpec& layer, std::vector<size_t>* from) {
  const auto put = [&](decltype(LayerSpec::op) op, size_t count) {
    const std::vector<size_t> joined(from->begin(), from->begin() + static_cast<int64_t>(count));
    int64_t width = 0;
    for (const size_t i : joined) width += nodes_[i].output.cols;
    if (std::holds_alternative<MultiplySpec>(op)) width = nodes_[joined[0]].output.cols;
    from->erase(from->begin() + 1, from->begin() + static_cast<int64_t>(count));
    from->front() = nodes_.size();
    return AddLayer({layer.name, {}, std::move(op)}, width, FloatFormat::kFactor, joined, {});
  };
  absl::Status status;
  if (std::holds_alternative<DotSpec>(layer.op) && from->size() > 1) status = put(ConcatSpec{}, from->size());
  const bool multiplies = std::holds_alternative<MultiplySpec>(layer.op);
  while (multiplies && from->size() > 2 && status.ok()) status = put(MultiplySpec{}, 2);
  return status;
}

// Of fp32, so that they can be read.
absl::Status Graph::AddEmbeddingGradients() {
  int64_t width = 0;
  for (const size_t i : embeddings_) width += only_forward_ ? 0 : nodes_[i].output.cols;
  auto memory = AllocateMatrix(width == 0 ? 0 : max_batch_, width, FloatFormat::kFp32);
  if (!memory.ok()) return memory.status();
  embedding_gradients_ = *memory;
  if (only_forward_) return absl::OkStatus();
  int64_t first = 0;
  for (const size_t i : embeddings_) {
    nodes_[i].gradient = embedding_gradients_.Columns(first, nodes_[i].output.cols);
    first += nodes_[i].output.cols;
  }
  if (only_counts_ || width == 0 || backend_.memory_is_host()) return absl::OkStatus();
  auto read = backend_.AllocateHost(static_cast<size_t>(memory->elements()) * sizeof(float));
  if (read.ok()) read_embedding_gradients_ = *std::move(read);
  return read.status();
}

absl::Status Graph::AddSeeds(const ModelSpec& model) {
  const bool any = std::any_of(model.layers.begin(), model.layers.end(), Draws);
  const int64_t seeds = any ? static_cast<int64_t>(nodes_.size()) : 0;
  auto memory = AllocateMatrix(seeds, sizeof(uint64_t) / sizeof(float), FloatFormat::kFp32);
  if (memory.ok()) seeds_ = *memory;
  return memory.status();
}

void Graph::PlanBackward() {
  std::set<size_t> read;
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (!nodes_[i].variables.empty()) stops_.push_back(i);
    if (!nodes_[i].trainable) continue;
    for (size_t from : nodes_[i].from) nodes_[i].adds.push_back(!read.insert(from).second);
  }
  // Backward goes on until the first embedding has its gradient.
  if (!embeddings_.empty() && (stops_.empty() || embeddings_[0] < stops_.back())) stops_.push_back(embeddings_[0]);
}

// Zeros lie ready to be copied: brought up each time they would cost each step the way from one stream to another.
absl::Status Graph::AddTotals() {
  for (Matrix* matrix : {&totals_, &zero_totals_}) {
    auto memory = AllocateMatrix(1, sizeof(BatchTotals) / sizeof(float), FloatFormat::kFp32);
    if (!memory.ok()) return memory.status();
    *matrix = *memory;
  }
  if (only_counts_) return absl::OkStatus();
  auto read = backend_.AllocateHost(sizeof(BatchTotals));
  if (!read.ok()) return read.status();
  read_totals_ = *std::move(read);
  const BatchTotals zero;
  return backend_.Upload(&zero, sizeof(zero), zero_totals_.data);
}

absl::StatusOr<Matrix> Graph::AllocateMatrix(int64_t rows, int64_t cols, FloatFormat format) {
  const size_t bytes = static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(float);
  bytes_ += bytes;
  if (only_counts_) return Matrix(nullptr, rows, cols);
  auto memory = backend_.Allocate(bytes, format);
  if (!memory.ok()) return memory.status();
  memory_.push_back(*std::move(memory));
  return Matrix(static_cast<float*>(memory_.back().data()), rows, cols);
}

absl::Status Graph::AddParameters(std::vector<VariableSpec> variables) {
  if (owner_ != nullptr) {
    parameters_ = owner_->parameters_;
    return absl::OkStatus();
  }
  for (VariableSpec& spec : variables) {
    const int64_t cols = spec.shape.back();
    const FloatFormat format =
        spec.shape.size() > 1 ? FloatFormat::kFactor : FloatFormat::kFp32;  // kernels; biases are added
    auto value = AllocateMatrix(spec.elements() / cols, cols, format);
    if (!value.ok()) return value.status();
    Matrix gradient;  // on the host computed right where it leaves
    if (!backend_.memory_is_host()) {
      auto memory = AllocateMatrix(value->rows, value->cols, FloatFormat::kFp32);
      if (!memory.ok()) return memory.status();
      gradient = *memory;
    }
    placed_.emplace_back();
    const bool rounded = backend_.keeps_rounded(format);
    parameters_.push_back(std::make_shared<Parameter>(Parameter{std::move(spec), *value, gradient, rounded}));
  }
  return absl::OkStatus();
}

absl::Status Graph::AddLayer(const LayerSpec& spec, int64_t width, FloatFormat output_format, std::vector<size_t> from,
                             std::vector<size_t> variables) {
  Node node;
  std::vector<Parameter*> parameters;
  for (const size_t variable : variables) {
    const Parameter& parameter = *parameters_[variable];
    if (parameter.spec.shape.size() > 1) recordings_.AddProduct(max_batch_, parameter.value.cols, parameter.value.rows);
    parameters.push_back(parameters_[variable].get());
  }
  node.variables = std::move(variables);
  node.from = std::move(from);
  const auto is_trainable = [this](size_t i) { return nodes_[i].trainable; };
  node.trainable =
      !only_forward_ && (!node.variables.empty() || std::any_of(node.from.begin(), node.from.end(), is_trainable));
  node.layer = MakeLayer(spec, parameters, nodes_.size());
  auto output = AllocateMatrix(max_batch_, width, output_format);
  if (!output.ok()) return output.status();
  node.output = *output;
  if (node.trainable) {
    auto gradient = AllocateMatrix(max_batch_, width, FloatFormat::kFactor);
    if (!gradient.ok()) return gradient.status();
    node.gradient = *gradient;
  }
  nodes_.push_back(std::move(node));
  return absl::OkStatus();
}

absl::StatusOr<float*> Graph::PlaceOf(size_t variable, int64_t offset, int64_t count) const {
  const int64_t elements = variable < parameters_.size() ? parameters_[variable]->value.elements() : 0;
  if (variable < parameters_.size() && offset >= 0 && offset <= elements && count <= elements - offset) {
    return parameters_[variable]->value.data + offset;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("elements ", offset, " to ", offset + count, " of variable ", variable, ", which has ", elements));
}

absl::Status Graph::SetParameters(size_t variable, int64_t offset, absl::Span<const float> values) {
  const auto to = PlaceOf(variable, offset, static_cast<int64_t>(values.size()));
  return to.ok() ? backend_.Upload(values.data(), values.size() * sizeof(float), *to) : to.status();
}

absl::Status Graph::BeginParameters(size_t variable, int64_t offset, int64_t count, const void* values) {
  const auto to = PlaceOf(variable, offset, count);
  if (!to.ok()) return to.status();
  const size_t number = keeps_rounded(variable) ? sizeof(Bf16) : sizeof(float);
  return backend_.BeginUpload(values, static_cast<size_t>(count) * number, *to);
}

absl::Status Graph::LoadBatch(const BatchInputs& inputs, absl::Span<const int32_t> labels,
                              absl::Span<const float> numbers, absl::Span<const float> weights) {
  if (absl::Status status = batches_.Load(inputs, labels, numbers, weights); !status.ok()) return status;
  PlaceInputs();
  return absl::OkStatus();
}

void Graph::PlaceInputs() {
  int64_t first = 0;
  for (Node& node : nodes_) {
    if (node.layer != nullptr) continue;
    node.output = batches_.inputs().Columns(first, node.output.cols);
    first += node.output.cols;
  }
}

std::vector<ConstMatrix> Graph::InputsOf(const Node& node) const {
  std::vector<ConstMatrix> inputs;
  for (size_t i : node.from) inputs.push_back(nodes_[i].output.Rows(batches_.size()));
  return inputs;
}

std::vector<GradientTarget> Graph::TargetsOf(const Node& node) const {
  std::vector<GradientTarget> targets;
  for (size_t i = 0; i < node.from.size(); ++i) {
    const Node& source = nodes_[node.from[i]];
    targets.push_back(source.trainable ? GradientTarget{source.gradient.Rows(batches_.size()), node.adds[i]}
                                       : GradientTarget{source.output.Rows(0), false});
  }
  return targets;
}

absl::Status Graph::UploadSeeds(uint64_t draw_seed) {
  if (seeds_.rows == 0) return absl::OkStatus();
  std::vector<uint64_t> seeds;
  for (size_t i = 0; i < nodes_.size(); ++i) seeds.push_back(MixAll(draw_seed, i));
  return backend_.Upload(seeds.data(), seeds.size() * sizeof(uint64_t), seeds_.data);
}

absl::Status Graph::Forward(const Pass& pass) {
  absl::Status status = pass.accumulate ? absl::OkStatus() : backend_.Copy(zero_totals_, totals_);
  if (!status.ok()) return status;
  for (const Node& node : nodes_) {
    if (node.layer == nullptr) continue;
    status = node.layer->Forward(pass, InputsOf(node), node.output.Rows(batches_.size()));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Graph::ComputeLoss(int64_t examples, Matrix gradient) {
  const ConstMatrix output = nodes_.back().output.Rows(batches_.size());
  const WeightedMean mean(examples, batches_.weights());
  switch (batches_.shapes().loss) {
    case Loss::kMeanSquaredError:
      return backend_.MeanSquaredError(output, batches_.targets().Rows(batches_.size()), mean, gradient, totals());
    case Loss::kSigmoidCrossEntropy:
      return backend_.SigmoidCrossEntropy(output, batches_.targets().Rows(batches_.size()), mean, gradient, totals());
    default:
      return backend_.SoftmaxCrossEntropy(output, batches_.labels(), mean, gradient, totals());
  }
}

absl::Status Graph::BeginTotals(const Meanwhile& meanwhile) {
  absl::Status status = backend_.BeginDownload(totals_.data, sizeof(BatchTotals), read_totals_.get());
  if (status.ok() && meanwhile && !backend_.memory_is_host()) meanwhile();
  return status;
}

absl::StatusOr<BatchTotals> Graph::AwaitTotals() {
  if (absl::Status status = backend_.AwaitDownload(); !status.ok()) return status;
  return *static_cast<const BatchTotals*>(read_totals_.get());
}

// On the host gradients are computed right into the payloads that leave; a device's parameters have a place for theirs.
void Graph::PlaceGradients(const Node& node) {
  for (size_t variable : node.variables) {
    Parameter& parameter = *parameters_[variable];
    placed_[variable] = Payload::AllocateToSend(static_cast<size_t>(parameter.value.elements()) * sizeof(float));
    float* const data = placed_[variable].mutable_floats().data();
    parameter.gradient = Matrix(data, parameter.value.rows, parameter.value.cols);
  }
}

VariableGradients Graph::TakeGradients(const Node& node) {
  VariableGradients gradients;
  for (size_t variable : node.variables) gradients.emplace_back(variable, std::move(placed_[variable]));
  return gradients;
}

absl::Status Graph::BeginDownloads(const Node& node) {
  VariableGradients& gradients = leaving_.emplace_back();  // holds as many as were begun, come what may
  for (size_t variable : node.variables) {
    const Matrix& gradient = parameters_[variable]->gradient;
    const size_t bytes = static_cast<size_t>(gradient.elements()) * sizeof(float);
    auto frame = frames_->Get(backend_, bytes);
    if (!frame.ok()) return frame.status();
    if (absl::Status status = backend_.BeginDownload(gradient.data, bytes, frame->data); !status.ok()) return status;
    gradients.emplace_back(variable, std::move(frame->payload));
  }
  return absl::OkStatus();
}

absl::Status Graph::FinishDownloads(const Ready& ready, VariableGradients* last) {
  absl::Status status;
  for (; !leaving_.empty(); leaving_.pop_front()) {
    for (size_t i = 0; i < leaving_.front().size(); ++i) status.Update(backend_.AwaitDownload());
    if (status.ok() && ready) HandOut(std::move(leaving_.front()), ready, last);
  }
  return status;
}

absl::Status Graph::BackwardParameters(const Pass& pass, const Node& node) {
  if (node.layer == nullptr) return absl::OkStatus();
  return node.layer->BackwardParameters(pass, InputsOf(node), node.output.Rows(batches_.size()),
                                        node.gradient.Rows(batches_.size()));
}

absl::Status Graph::BackwardInputs(const Pass& pass, const Node& node) {
  if (node.layer == nullptr) return absl::OkStatus();
  return node.layer->BackwardInputs(pass, InputsOf(node), node.output.Rows(batches_.size()),
                                    node.gradient.Rows(batches_.size()), TargetsOf(node));
}

absl::Status Graph::Compute(const Pass& pass, const GraphSegment& segment) {
  absl::Status status;
  if (segment.after == nodes_.size()) {
    const Node& output = nodes_.back();
    status = Forward(pass);
    status.Update(ComputeLoss(pass.examples, output.trainable ? output.gradient.Rows(batches_.size()) : Matrix()));
  } else {
    status = BackwardInputs(pass, nodes_[segment.after]);
  }
  for (size_t i = segment.after; i-- > segment.until && status.ok();) {
    if (!nodes_[i].trainable) continue;
    status = BackwardParameters(pass, nodes_[i]);
    if (status.ok() && i > segment.until) status = BackwardInputs(pass, nodes_[i]);
  }
  return status;
}

absl::Status Graph::ForwardAndBackward(const Pass& pass, const Ready& ready, VariableGradients* last) {
  const bool on_host = backend_.memory_is_host();
  GraphSegment segment{nodes_.size(), nodes_.size()};
  for (size_t i = on_host || ready ? 0 : stops_.size() - 1; i < stops_.size(); ++i) {
    segment = {segment.until, stops_[i]};
    const Node& node = nodes_[segment.until];
    if (on_host && !pass.accumulate) PlaceGradients(node);
    const StepRecordings::Key key{segment, batches_.at_hand(), batches_.size(), pass.examples, pass.accumulate};
    absl::Status status = recordings_.Repeat(key, [&] { return Compute(pass, segment); });
    if (status.ok() && !on_host && ready) status = BeginDownloads(node);
    if (!status.ok()) return status;
    if (on_host && ready) HandOut(TakeGradients(node), ready, last);
  }
  return absl::OkStatus();
}

absl::StatusOr<Graph::TrainResult> Graph::Train(uint64_t draw_seed, const Ready& ready, const BatchInStep& place,
                                                const Meanwhile& meanwhile) {
  const int64_t batch = batches_.size();
  const int64_t examples = place.examples == 0 ? batch : place.examples;
  const int64_t so_far = place.before + batch;
  if ((place.before != 0 && place.before != summed_) || so_far > examples) {
    return absl::InvalidArgumentError(absl::StrCat("a batch of ", batch, " examples behind ", place.before,
                                                   " of a step of ", examples, ", of which ", summed_, " are summed"));
  }
  const bool leaves = so_far == examples;
  if (batch == 0) return absl::FailedPreconditionError("no batch was loaded");
  summed_ = 0;
  TrainResult result;
  absl::Status status = UploadSeeds(draw_seed);
  const Pass pass{backend_, true, reinterpret_cast<const uint64_t*>(seeds_.data), examples, place.before > 0};
  if (status.ok()) status = ForwardAndBackward(pass, leaves ? ready : nullptr, &result.last);
  if (status.ok() && leaves) status = BeginTotals(meanwhile);
  status.Update(FinishDownloads(status.ok() ? ready : nullptr, &result.last));
  if (!leaves) {
    if (!status.ok()) return status;
    summed_ = so_far;
    return result;
  }
  auto totals = AwaitTotals();  // if something failed, maybe of none: they come last
  status.Update(totals.status());
  if (!status.ok()) return status;
  result.loss = totals->loss;
  return result;
}

absl::StatusOr<const float*> Graph::ReadEmbeddingGradients() {
  if (backend_.memory_is_host()) return embedding_gradients_.data;
  auto* const to = static_cast<float*>(read_embedding_gradients_.get());
  const auto bytes = static_cast<size_t>(batches_.size() * embedding_gradients_.cols) * sizeof(float);
  absl::Status status = backend_.Download(embedding_gradients_.data, bytes, to);
  if (status.ok()) status = backend_.Synchronize();
  if (!status.ok()) return status;
  return to;
}

absl::StatusOr<BatchTotals> Graph::Evaluate(const Meanwhile& meanwhile) {
  if (batches_.size() == 0) return absl::FailedPreconditionError("no batch was loaded");
  if (absl::Status status = Forward({backend_, false}); !status.ok()) return status;
  if (absl::Status status = ComputeLoss(batches_.size(), Matrix()); !status.ok()) return status;
  const Matrix output = nodes_.back().output.Rows(batches_.size());
  absl::Status status;
  const bool is_sigmoid = batches_.shapes().loss == Loss::kSigmoidCrossEntropy;
  const bool is_share = is_sigmoid && (output.cols == 1 || examples_.has_sets);
  if (is_share) status = backend_.Activate(ActivationFunction::kSigmoid, output, output);
  if (status.ok() && !examples_.has_sets) status = backend_.CountCorrect(output, batches_.labels(), totals());
  if (status.ok()) status = BeginTotals(meanwhile);
  if (!status.ok()) return status;
  return AwaitTotals();
}

absl::StatusOr<ConstMatrix> Graph::ComputeForward(int64_t examples) {
  if (absl::Status status = batches_.Begin(examples); !status.ok()) return status;
  PlaceInputs();
  if (absl::Status status = Forward({backend_, false}); !status.ok()) return status;
  return ConstMatrix(nodes_.back().output.Rows(examples));
}

absl::Status Graph::ReadOutputs(absl::Span<float> outputs) {
  const Matrix& from = nodes_.back().output;  // fp32 on each device
  if (outputs.size() > static_cast<size_t>(from.rows * from.cols)) {
    return absl::InvalidArgumentError(
        absl::StrCat("outputs of ", outputs.size(), " numbers, where a batch has at most ", from.rows * from.cols));
  }
  const absl::Status status = backend_.Download(from.data, outputs.size() * sizeof(float), outputs.data());
  return status.ok() ? backend_.Synchronize() : status;
}

}  // namespace downpour
