// The kinds of layers, as operations on matrices of [batch, width]; graph.h joins them.
//
// Order: backward reads what forward of the same batch left: the layer's inputs and its output.
// Threads: as the backend.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "job/job.h"
#include "job/variables.h"
#include "tensor/backend.h"

namespace downpour {

// A variable on the device. Kernels are [fan in, units], biases [1, units].
struct Parameter {
  VariableSpec spec;
  Matrix value;
  Matrix gradient;       // where the current step's goes; on the host set before its first backward pass
  bool rounded = false;  // the value is kept as bfloat16
};

struct Pass {
  Backend& backend;
  bool training = false;            // dropout is for training alone
  const uint64_t* seeds = nullptr;  // training: of this batch's draws, by layer; in the backend's memory
  // Training: the examples over whose losses the mean is taken, and whether parameters' gradients add to those of the
  // batches before.
  int64_t examples = 0;
  bool accumulate = false;
};

// Where a layer puts the gradient of one of its inputs.
struct GradientTarget {
  Matrix view;              // no rows: not wanted; its columns are the input's in any case
  bool accumulate = false;  // another reader of the same input came before
};

class Layer {
 public:
  virtual ~Layer() = default;
  virtual absl::Status Forward(const Pass& pass, absl::Span<const ConstMatrix> inputs, Matrix output) = 0;
  // Comes first and gives the parameters' gradients. May overwrite d_output by what BackwardInputs needs instead.
  virtual absl::Status BackwardParameters(const Pass& pass, absl::Span<const ConstMatrix> inputs, ConstMatrix output,
                                          Matrix d_output);
  virtual absl::Status BackwardInputs(const Pass& pass, absl::Span<const ConstMatrix> inputs, ConstMatrix output,
                                      Matrix d_output, absl::Span<const GradientTarget> d_inputs) = 0;
};

// Whether the layer reads its seed: it draws again for each batch.
bool Draws(const LayerSpec& spec);

// `parameters`: the layer's own variables, in the order of ModelShapes: a dense layer's kernel and, with it, bias; none
// for the others. They outlive the layer.
// `number`: which of the pass's seeds is its own.
std::unique_ptr<Layer> MakeLayer(const LayerSpec& spec, absl::Span<Parameter* const> parameters, size_t number);

}  // namespace downpour
