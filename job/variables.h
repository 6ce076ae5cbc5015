// The variables of a model, inferred from its layers, or as the user's Python code has named them: what the chief
// places, ps initialises and workers compute with.
//
// Tests: tests/unit/job/variables_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "job/job.h"

namespace downpour {

enum class Initializer {
  kZeros,
  kGlorotUniform,  // U(-a, a), a = sqrt(6 / (fan in + fan out)); Glorot and Bengio 2010
  kHeUniform,      // U(-a, a), a = sqrt(6 / fan in), before relu; He et al. 2015
};

struct VariableSpec {
  std::string name = {};            // LAYER/kernel or LAYER/bias; what the user's Python code calls it
  std::vector<int64_t> shape = {};  // kernel: [fan in, units], row-major; bias: [units]; of own variables any
  Initializer initializer = Initializer::kZeros;
  int64_t fan_in = 0;
  int64_t fan_out = 0;
  bool trainable = true;  // else its gradients are what it is to change by, negated
  int64_t elements() const;
};

// Parameters of the largest model: 64 GiB of values, 65,536 full slices, so that no job text makes a receiver allocate
// more.
inline constexpr int64_t kMaxModelElements = int64_t{1} << 34;

// What each layer yields for one example, and everything that does not fit, for a reader that reports all at once.
// Shapes: dense flattens what it reads and yields [units]; concat yields one flat width; dot [n (n - 1) / 2] of
//   n vectors; the others keep the shape.
struct ModelShapes {
  struct Error {
    size_t layer = 0;  // index into the model's layers; their number: the layers fit, the whole does not
    std::string what;
    std::string remedy = {};
  };
  std::vector<std::vector<int64_t>> outputs;  // by layer; empty where it cannot be told
  std::vector<VariableSpec> variables;        // as of InferVariables
  std::vector<size_t> variable_counts;        // by layer: how many of these are its own
  std::vector<Error> errors;
};

// What a reader has reported already, so that nothing is reported that follows from it alone.
struct ModelFaults {
  std::set<size_t> inputs;  // by their places
  std::set<size_t> layers;
  bool tables = false;  // some table is not known: who reads it may be right
  bool names = false;   // of some input or layer: who reads an unknown one may be right
  bool reads = false;   // what some layer reads: nobody can be called unread
  bool loss = false;
};
ModelShapes InferShapes(const ModelSpec& model, const ModelFaults& known = {});

// In the order of the layers, a kernel before its bias.
// Errors: INVALID_ARGUMENT naming the layer, where shapes do not fit or a size overflows.
absl::StatusOr<std::vector<VariableSpec>> InferVariables(const ModelSpec& model);

// Of those that the user's Python code has named: how many numbers they hold in all, or -1 where a dimension is not
// positive or there are more than kMaxModelElements.
int64_t CountElements(const std::vector<OwnVariableSpec>& variables);

// The flattened width of the output of a model with layers for one example. Errors: as above.
absl::StatusOr<int64_t> InferOutputWidth(const ModelSpec& model);

}  // namespace downpour
