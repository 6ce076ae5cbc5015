// Labels: what a client may write on a job, such as team=a.
//
//   absl::StatusOr<Labels> labels = ReadLabels(json);
//
// Shapes: at most 64. A key is a lower case letter, then lower case letters, numbers, - and _, at most 63 characters in
//   all. A value has at most 63 of these, and may be empty. Letters without case are lower case ones too.
// Errors: INVALID_ARGUMENT. It names the label, as KEY=VALUE.
// Source: the Google Cloud SDK's labels_util.py: [\p{Ll}\p{Lo}][\p{Ll}\p{Lo}\p{N}_-]{0,62}.
// Tests: tests/unit/service/job_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace downpour {

using Labels = std::map<std::string, std::string>;

absl::StatusOr<Labels> ReadLabels(const nlohmann::json& labels);

// Unicode's, in their order. letter_ranges.py writes them as the service is built.
struct CodeRange {
  uint32_t first, last;
};
const std::vector<CodeRange>& LowerCaseLetters();  // and those without case
const std::vector<CodeRange>& Numbers();

}  // namespace downpour
