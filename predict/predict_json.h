// Predictions as JSON: the bodies of AI Platform's :predict and of TensorFlow Serving.
//
//   const absl::StatusOr<std::string> answer = PredictJson(*predictor, body);
//
// Shapes: {"instances": [ROW, ...]} is answered by {"predictions": [{"probabilities": [...], "class": 3}, ...]}. A ROW
//   is an object of columns; of a model with one input also its list of numbers, nested or not, or its one value.
//   {"inputs": {"age": [39, 50], ...}}, or {"inputs": [ROW, ...]} of a model with one input, is answered by
//   {"outputs": {"probabilities": [[...], ...], "class": [...]}}. "signature_name" is passed over.
// Cost: one pass over the text and one over its numbers: some microseconds for 784 of them. Memory is kept for the next
//   body of the same thread, up to 256 KiB of text.
// Errors: INVALID_ARGUMENT with row, column and remedy; OUT_OF_RANGE for more than JsonLimits; else the predictor's.
// Threads: any, at the same time.
// Tests: tests/unit/predict/predict_json_test.cc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "predict/predictor.h"

namespace downpour {

struct JsonLimits {
  size_t most_bytes = size_t{16} << 20;  // a request may take ten times its bytes of memory
  size_t most_levels = 16;               // of lists and objects in each other
};

absl::StatusOr<std::string> PredictJson(const Predictor& predictor, std::string_view body,
                                        const JsonLimits& limits = {});

// Of one instance, as each line of gcloud's --json-instances is: its prediction, in one line without its end.
absl::StatusOr<std::string> PredictJsonLine(const Predictor& predictor, std::string_view instance,
                                            const JsonLimits& limits = {});
// The same as a batch, of a model that takes columns.
absl::StatusOr<OutputBatch> PredictJsonInstance(const Predictor& predictor, std::string_view instance,
                                                const JsonLimits& limits = {});

// The prediction of one row, as an object.
void AppendJsonRow(const OutputBatch& answer, size_t row, std::string* text);

// {"inputs": [{"name": ..., "type": "number", ...}], "outputs": [...]}, for people and for metadata.
std::string SignatureJson(const Signature& signature);

}  // namespace downpour
