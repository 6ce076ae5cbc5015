// The variables of a model, inferred from its layers alone: what the chief places, ps initialises and workers compute with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/job.h"

namespace downpour {

enum class Initializer {
  kZeros,
  kGlorotUniform,  // U(-a, a), a = sqrt(6 / (fan in + fan out)); Glorot and Bengio 2010
  kHeUniform,      // U(-a, a), a = sqrt(6 / fan in), before relu; He et al. 2015
};

struct VariableSpec {
  std::string name;            // LAYER/kernel or LAYER/bias
  std::vector<int64_t> shape;  // kernel: [fan in, units], row-major; bias: [units]
  Initializer initializer = Initializer::kZeros;
  int64_t fan_in = 0;
  int64_t fan_out = 0;
  int64_t elements() const;
};

// In the order of the layers, a kernel before its bias.
// Errors: INVALID_ARGUMENT naming the layer, where shapes do not fit or a size overflows.
absl::StatusOr<std::vector<VariableSpec>> InferVariables(const ModelSpec& model);

// The flattened width of the model's output for one example. Errors: as above.
absl::StatusOr<int64_t> InferOutputWidth(const ModelSpec& model);

}  // namespace downpour
