// What the user's code says of itself once it has come to its model, read with care: it may say what it likes.
//
//   const absl::StatusOr<nlohmann::json> ready = child->Receive("ready");
//   if (absl::Status status = CheckIsAsSubmitted(*ready, job); !status.ok()) return status;
//
// Errors: INVALID_ARGUMENT with what differs from the job, and the remedy.
// Tests: tests/unit/worker/python_computer_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/status.h"
#include "job/job.h"

namespace downpour {

// 0 where there is no such number.
uint64_t CountOf(const nlohmann::json& json, const char* key);
// Of anything else than an array: an empty one.
nlohmann::json ArrayOf(const nlohmann::json& json, const char* key);

// Where each metric is among those of the code; of one that it lacks: their number.
std::vector<size_t> PlacesOf(const std::vector<MetricSpec>& metrics, const nlohmann::json& ready);

// Its release, variables and tables.
absl::Status CheckMakesModel(const nlohmann::json& ready, const ModelSpec& model);

// The same code with the same arguments must have come to the same model and data as where the job was submitted.
absl::Status CheckIsAsSubmitted(const nlohmann::json& ready, const JobSpec& job);

}  // namespace downpour
