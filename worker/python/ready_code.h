// What the user's code says of itself once it has come to its model, read with care: it may say what it likes.
//
//   const absl::StatusOr<nlohmann::json> ready = child->Receive("ready");
//   if (absl::Status status = CheckIsAsSubmitted(*ready, job); !status.ok()) return status;
//
// Errors: INVALID_ARGUMENT with what differs from the job, and the remedy.
// Tests: tests/unit/worker/ready_code_test.cc, python_computer_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/job.h"

namespace downpour {

// 0 where there is no such number.
uint64_t CountOf(const nlohmann::json& json, const char* key);
// Of an object; empty where there is no such text.
std::string TextOf(const nlohmann::json& json, const char* key);
// Of anything else than an array: an empty one.
nlohmann::json ArrayOf(const nlohmann::json& json, const char* key);

// Where the sums of a metric are among those of the code.
struct MetricPlace {
  size_t first = 0;
  size_t sums = 0;
};
// Of each. Errors: the code computes none of that name, or one of another kind.
absl::StatusOr<std::vector<MetricPlace>> PlacesOf(const std::vector<MetricSpec>& metrics, const nlohmann::json& ready);

// Its release, variables and tables.
absl::Status CheckMakesModel(const nlohmann::json& ready, const ModelSpec& model);

// The same code with the same arguments must have come to the same model and data as where the job was submitted.
absl::Status CheckIsAsSubmitted(const nlohmann::json& ready, const JobSpec& job);

}  // namespace downpour
