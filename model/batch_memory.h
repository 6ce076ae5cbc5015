// The batch at hand in a backend's memory. A device has room for another one, which comes up while this one is
// computed.
//
//   status = batches.Allocate(shapes, allocate);
//   status = batches.Load(pixels, labels);      // the batch at hand from then on, for operations given from then on
//   layer->Forward(pass, batches.inputs().Rows(batches.size()), ...);
//
// Shapes: an example is input_width numbers side by side; its label is a class, or, for the mean squared error of an
//   output of width 1, the value itself (of a wider one: the class as a one-hot row). Of a set of classes it is a row
//   with 1 for each of them. Its weight is a number.
// Cost: bytes go up as bytes, and are widened on the device: a quarter of what floats take, on the way and in memory.
// Errors: of Load: INVALID_ARGUMENT for what is no batch of these shapes, OUT_OF_RANGE for a label beyond the output;
//   else the backend's, after which a batch must be loaded before anything is computed.
// Threads: one at a time.
// Tests: tests/unit/model/graph_test.cc; tests/parity/model_parity_test.cc: bytes are the floats that they stand for.
#pragma once

#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "job/job.h"
#include "tensor/backend.h"

namespace downpour {

// What examples are kept as, and come as.
enum class InputType {
  kFp32,
  kBytes,  // a model sees byte / 255
};
// What the examples of a data set have beside numbers and a label.
struct ExampleKind {
  InputType inputs = InputType::kFp32;
  bool is_weighted = false;
  bool has_sets = false;  // labels are sets of classes
};
using BatchInputs = std::variant<absl::Span<const float>, absl::Span<const uint8_t>>;

class BatchMemory {
 public:
  struct Shapes {
    int64_t max_batch = 0;
    int64_t input_width = 0;
    ExampleKind examples = {};
    int64_t output_width = 0;
    Loss loss = Loss::kSoftmaxCrossEntropy;
    bool has_targets() const { return loss != Loss::kSoftmaxCrossEntropy; }  // beside labels, as numbers
  };
  using Allocator = std::function<absl::StatusOr<Matrix>(int64_t rows, int64_t cols, FloatFormat format)>;

  // The backend outlives this.
  explicit BatchMemory(Backend& backend) : backend_(backend), slots_(backend.memory_is_host() ? 1 : 2) {}
  absl::Status Allocate(const Shapes& shapes, const Allocator& allocate);

  // 1 to max_batch examples. `numbers`: what labels are for the mean squared error of an output of width 1, where they
  // are more than their whole numbers, or rows of sets of classes; output_width for each label, or none. `weights`: as
  // many as labels where examples are weighted, else none.
  absl::Status Load(const BatchInputs& inputs, absl::Span<const int32_t> labels, absl::Span<const float> numbers = {},
                    absl::Span<const float> weights = {});
  // The same of inputs that were written to inputs() in place, without labels.
  absl::Status Begin(int64_t examples);
  void Unload() { size_ = 0; }

  const Shapes& shapes() const { return shapes_; }
  int64_t size() const { return size_; }  // examples of the batch at hand; 0 without one
  // Which of its places it lies in: operations on another batch in the same one have the same addresses.
  size_t at_hand() const { return at_hand_; }
  // For max_batch examples, as are the targets, which are the mean squared error's only.
  Matrix inputs() const { return slots_[at_hand_].inputs; }
  ConstMatrix targets() const { return slots_[at_hand_].targets; }
  absl::Span<const int32_t> labels() const { return {slots_[at_hand_].labels, static_cast<size_t>(size_)}; }
  const float* weights() const { return slots_[at_hand_].weights.data; }  // null: all are 1

 private:
  struct Slot {
    Matrix inputs;
    uint8_t* bytes = nullptr;  // as they came, where they came so
    Matrix targets;
    int32_t* labels = nullptr;
    Matrix weights;
  };

  absl::Status CheckLabels(absl::Span<const int32_t> labels) const;
  absl::Status LoadTargets(absl::Span<const int32_t> labels, absl::Span<const float> numbers);

  Backend& backend_;
  Shapes shapes_;
  std::vector<Slot> slots_;
  size_t at_hand_ = 0;
  int64_t size_ = 0;
};

}  // namespace downpour
