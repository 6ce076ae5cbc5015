// A TrainingInput as AI Platform's API has it, of what people wrote.
//
//   json input = {{"pythonVersion", 3.7}, {"region", nullptr}};
//   absl::Status status = NormaliseTrainingInput(&input);        // {"pythonVersion": "3.7"}
//
// What is null is as if absent. A number or a boolean in a field of text becomes its text: people write 3.7 without
// quotes. Nothing else may be of another type than the API's: Google's clients stop at a job that has one, and list
// none of the others either.
// Errors: INVALID_ARGUMENT naming the field.
// Source: the message GoogleCloudMlV1__TrainingInput of Google's API, version v1.
// Tests: tests/unit/service/job_test.cc.
#pragma once

#include <nlohmann/json.hpp>

#include "absl/status/status.h"

namespace downpour {

absl::Status NormaliseTrainingInput(nlohmann::json* input);

}  // namespace downpour
