// CheckSamePlan: whether a job may go on from what was trained under an earlier text of it.
//
//   absl::Status status = CheckSamePlan(job, manifest.job, "checkpoint 12-3");
//
// Errors: INVALID_ARGUMENT with every entry that differs, both values and the remedies; or where this release does not
//   understand the text. `whose` begins the sentence.
// Tests: tests/unit/job/plan_check_test.cc.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "job/job.h"

namespace downpour {

// `before`: as CanonicalJob writes it.
absl::Status CheckSamePlan(const JobSpec& job, const std::string& before, const std::string& whose);

}  // namespace downpour
