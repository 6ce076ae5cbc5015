// BatchInput: what a batch prediction is to answer, as a job's predictionInput says it.
//
//   absl::StatusOr<BatchInput> input = ReadBatchInput(json);
//
// Errors: INVALID_ARGUMENT with the field and what is allowed.
// Source: the Google Cloud SDK's ml_v1_messages.py (GoogleCloudMlV1PredictionInput).
// Tests: tests/process/test_predictions.py.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace downpour {

struct BatchInput {
  std::vector<std::string> inputs;                 // gs://, the last part with * and ?
  std::string output;                              // gs://, a folder
  std::string model = {}, version = {}, uri = {};  // a model, or the URI of what a version may be deployed from
};

absl::StatusOr<BatchInput> ReadBatchInput(const nlohmann::json& prediction_input);

}  // namespace downpour
