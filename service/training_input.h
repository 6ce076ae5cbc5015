// A TrainingInput as AI Platform's API has it, of what people wrote.
//
//   const std::string body = R"({"pythonVersion": 2.10, "region": null})";
//   json input = json::parse(body);
//   absl::Status status = NormaliseTrainingInput(AsWritten(body), &input);        // {"pythonVersion": "2.10"}
//
// What is null is as if absent. A number or a boolean in a field of text becomes its text, as the person wrote it:
// people write 2.10 and 007 without quotes, and as numbers these would be 2.1 and 7. Nothing else may be
// of another type than the API's: Google's clients stop at a job that has one, and list none of the others either.
// Errors: INVALID_ARGUMENT naming the field.
// Source: the message GoogleCloudMlV1__TrainingInput of Google's API, version v1.
// Tests: tests/unit/service/job_test.cc.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/status.h"
#include "job/yaml_tree.h"

namespace downpour {

// The same values, with the text of each bare one in its place. `json` is valid; null where it is not.
nlohmann::json AsWritten(std::string_view json);
nlohmann::json AsWritten(const YamlNode& node);

// `written`: what AsWritten gives of the same text.
absl::Status NormaliseTrainingInput(const nlohmann::json& written, nlohmann::json* input);

}  // namespace downpour
