// JSON from outside, with a bound on its levels: copies of a Json, and its end, call themselves for each one.
//
//   absl::StatusOr<nlohmann::json> json = ParseBoundedJson(text, 32);
//
// Cost: linear in the text; what is too deep is not kept.
// Errors: OUT_OF_RANGE for more levels, INVALID_ARGUMENT for what is no JSON. Who asks knows better what to call it.
// Tests: tests/unit/service/job_test.cc, tests/unit/worker/python_computer_test.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "absl/status/statusor.h"

namespace downpour {

absl::StatusOr<nlohmann::json> ParseBoundedJson(std::string_view text, int most_levels);

}  // namespace downpour
