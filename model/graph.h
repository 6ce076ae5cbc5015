// A model on a device: forward, backward, loss.
//
//   auto graph = Graph::Create(job.model, job.training.batch_size, *backend);
//   (*graph)->SetParameters(variable, offset, values);           // for all of them, before the first batch
//   (*graph)->LoadBatch(inputs, labels);
//   auto result = (*graph)->Train(plan.DrawSeed(lease, step, 0), [](VariableGradients ready) { ... });
//   auto gradients = (*graph)->ReadEmbeddingGradients();         // after each batch, where the model has embeddings
//
// Shapes: an example is all inputs side by side, input_width() numbers; for its label see batch_memory.h. What
//   embedding layers yield comes from outside: inputs end with it, layer by layer in the order of the model.
// Units: gradients are of the step's mean loss (WeightedMean); losses are sums over the step, of each example times its
//   weight.
// Order: gradients leave as soon as they are computed: the last layer's first. From a device each layer's are copied
//   away while the layers before it are still computed. Of a step of several batches they leave with its last one.
//   `meanwhile` is called where a device still computes, when all of the step, or of the evaluation, was given to it
//   and before anything leaves: the time to load the next batch. Where memory_is_host() there is no such time.
//   A device's steps that are bound by their launches are repeated as the backend recorded them (Backend::Repeat).
// Cost: the device's memory is taken in Create, some of it by steps and evaluations on zeros, and so is the host's for
//   the gradients of two steps; they leave in one payload per variable and step, zero-copy from there on.
// Errors: INVALID_ARGUMENT for a model whose shapes do not fit and for parameters or batches that are not the model's;
//   OUT_OF_RANGE for a label beyond the output; RESOURCE_EXHAUSTED naming the smaller batch size that would fit the
//   device's memory; else the backend's.
// Threads: one at a time.
// Tests: tests/unit/model/graph_test.cc; across devices tests/parity/model_parity_test.cc.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "job/job.h"
#include "job/variables.h"
#include "model/batch_memory.h"
#include "model/frame_pool.h"
#include "model/layers.h"
#include "model/step_recordings.h"
#include "schema/payload.h"
#include "tensor/backend.h"

namespace downpour {

// By index into variables().
using VariableGradients = std::vector<std::pair<size_t, Payload>>;

// Where a batch stands in a step of several, which are trained one behind the other.
struct BatchInStep {
  int64_t before = 0;    // examples of the step's batches before this one
  int64_t examples = 0;  // of all its batches; 0: this batch is the step
};

class Graph {
 public:
  // The backend outlives the graph.
  static absl::StatusOr<std::unique_ptr<Graph>> Create(const ModelSpec& model, int64_t max_batch, Backend& backend,
                                                       const ExampleKind& examples = {});

  // A graph that computes forward alone, on the host, whose parameters are those of `parameters`, if any: any number of
  // such graphs have one copy of them. It takes no memory for gradients.
  static absl::StatusOr<std::unique_ptr<Graph>> CreateForward(const ModelSpec& model, int64_t max_batch,
                                                              Backend& backend,
                                                              std::shared_ptr<const Graph> parameters = nullptr);

  int64_t input_width() const { return batches_.shapes().input_width; }
  int64_t output_width() const { return nodes_.back().output.cols; }

  absl::Status SetParameters(size_t variable, int64_t offset, absl::Span<const float> values);
  // Out of memory of Backend::AllocateHost, as the device keeps the variable. It must not change before a step or an
  // evaluation behind it has ended well, or the backend was synchronized.
  absl::Status BeginParameters(size_t variable, int64_t offset, int64_t count, const void* values);
  bool keeps_rounded(size_t variable) const { return parameters_[variable]->rounded; }
  // As BatchMemory::Load takes it.
  absl::Status LoadBatch(const BatchInputs& inputs, absl::Span<const int32_t> labels,
                         absl::Span<const float> numbers = {}, absl::Span<const float> weights = {});

  using Ready = std::function<void(VariableGradients)>;
  struct TrainResult {
    double loss = 0;
    VariableGradients last;  // those of the first layer that has some; not given to `ready`
  };
  using Meanwhile = std::function<void()>;
  // Without `ready` the gradients stay on the device. Before the last batch of a step the result is empty.
  absl::StatusOr<TrainResult> Train(uint64_t draw_seed, const Ready& ready, const BatchInStep& place = {},
                                    const Meanwhile& meanwhile = nullptr);
  absl::StatusOr<BatchTotals> Evaluate(const Meanwhile& meanwhile = nullptr);
  // What the last step or evaluation gave, [examples, output_width()] row by row; a whole number of rows, at most those
  // of its batch. Of an evaluation of a single sigmoid, and of each of those that learn sets:
  // the probability of class 1. Sets are not counted as correct.
  absl::Status ReadOutputs(absl::Span<float> outputs);
  // Of a graph by CreateForward: where the inputs of the next batch go, [max_batch, input_width()], and its outputs.
  Matrix inputs() const { return batches_.inputs(); }
  absl::StatusOr<ConstMatrix> ComputeForward(int64_t examples);
  // Of what embedding layers yielded, as the batch that was trained last had it: [examples, their width in all] row by
  // row, until the next batch is trained.
  absl::StatusOr<const float*> ReadEmbeddingGradients();

 private:
  struct Node {
    std::unique_ptr<Layer> layer;  // null for an input and for an embedding, which the batch brings
    std::vector<size_t> from;
    std::vector<size_t> variables;
    bool trainable = false;  // has variables, is an embedding, or reads a node that is trainable
    Matrix output;           // for max_batch rows, as is the next
    Matrix gradient;         // only where trainable
    std::vector<bool> adds;  // by `from`: its gradient is added to that of a reader that comes first in backward
  };

  Graph(int64_t max_batch, Backend& backend, const ExampleKind& examples)
      : max_batch_(max_batch), examples_(examples), backend_(backend), batches_(backend), recordings_(backend) {}
  absl::StatusOr<uint64_t> BytesNeeded(const ModelSpec& model, int64_t batch) const;
  absl::Status OutOfMemoryError(const ModelSpec& model, uint64_t available, const absl::Status& why) const;
  absl::Status Build(const ModelSpec& model);
  absl::Status AddLayers(const ModelSpec& model);
  absl::Status JoinFirst(const LayerSpec& layer, std::vector<size_t>* from);
  absl::Status AddEmbeddingGradients();
  absl::Status AddTotals();
  absl::Status AddSeeds(const ModelSpec& model);
  void PlanBackward();
  absl::Status WarmUp();
  absl::Status AddParameters(std::vector<VariableSpec> variables);
  void PlaceInputs();
  absl::StatusOr<float*> PlaceOf(size_t variable, int64_t offset, int64_t count) const;
  absl::Status AddLayer(const LayerSpec& spec, int64_t width, FloatFormat output_format, std::vector<size_t> from,
                        std::vector<size_t> variables);
  absl::StatusOr<Matrix> AllocateMatrix(int64_t rows, int64_t cols, FloatFormat format);

  std::vector<ConstMatrix> InputsOf(const Node& node) const;
  std::vector<GradientTarget> TargetsOf(const Node& node) const;
  absl::Status UploadSeeds(uint64_t draw_seed);
  absl::Status Forward(const Pass& pass);
  absl::Status ComputeLoss(int64_t examples, Matrix gradient);
  BatchTotals* totals() const { return reinterpret_cast<BatchTotals*>(totals_.data); }
  absl::Status BeginTotals(const Meanwhile& meanwhile);
  absl::StatusOr<BatchTotals> AwaitTotals();
  absl::Status ForwardAndBackward(const Pass& pass, const Ready& ready, VariableGradients* last);
  absl::Status Compute(const Pass& pass, const GraphSegment& segment);
  absl::Status BackwardParameters(const Pass& pass, const Node& node);
  absl::Status BackwardInputs(const Pass& pass, const Node& node);
  void PlaceGradients(const Node& node);
  VariableGradients TakeGradients(const Node& node);
  absl::Status BeginDownloads(const Node& node);
  absl::Status FinishDownloads(const Ready& ready, VariableGradients* last);

  const int64_t max_batch_;
  const ExampleKind examples_;
  Backend& backend_;
  bool only_counts_ = false;            // takes no memory, but says how much it would
  bool only_forward_ = false;           // nothing is trained
  std::shared_ptr<const Graph> owner_;  // of the parameters, if that is another one
  uint64_t bytes_ = 0;
  std::vector<Buffer> memory_;
  std::shared_ptr<FramePool> frames_ = FramePool::Create();
  std::deque<VariableGradients> leaving_;               // a layer's each, in the order of their downloads
  std::vector<Payload> placed_;                         // by variable: where a host's gradients are computed
  std::vector<std::shared_ptr<Parameter>> parameters_;  // by variable; layers point to them
  std::vector<Node> nodes_;                             // inputs, then layers; the last one is the output
  std::vector<size_t> stops_;                           // where gradients are ready to leave, in the order of backward
  BatchMemory batches_;
  Matrix totals_;  // the memory of a BatchTotals, as are the next
  Matrix zero_totals_;
  Matrix seeds_;                                    // the memory of a number for each node, where any of them draws
  std::vector<size_t> embeddings_;                  // nodes
  Matrix embedding_gradients_;                      // theirs, side by side, for max_batch rows
  std::shared_ptr<void> read_embedding_gradients_;  // the host's, for a device to write to, as is the next
  std::shared_ptr<void> read_totals_;
  int64_t summed_ = 0;  // examples whose gradients are summed and have not left
  StepRecordings recordings_;
};

}  // namespace downpour
