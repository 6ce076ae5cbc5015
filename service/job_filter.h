// The filter of a list of jobs: that of filter.h, which asks for what a job has and nothing else.
//
//   absl::StatusOr<Filter> filter = ReadJobFilter("state=RUNNING AND labels.team:a");
//   if (filter->Holds(ResourceOf(job))) ...
//
// Errors: INVALID_ARGUMENT with what is allowed: a field that no job has, a state that is none, a time that is none.
// Source: the Google Cloud SDK's ml_v1_messages.py (GoogleCloudMlV1__Job).
// Tests: tests/unit/service/filter_test.cc.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "service/filter.h"

namespace downpour {

absl::StatusOr<Filter> ReadJobFilter(const std::string& text);

}  // namespace downpour
