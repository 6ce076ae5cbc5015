// CheckSamePlan, GrowsTo: whether a job may go on from what was trained under an earlier text of it, or on fewer data.
//
//   absl::Status status = CheckSamePlan(job, manifest.job, "checkpoint 12-3");
//
// Errors: INVALID_ARGUMENT with every entry that differs, both values and the remedies; or where this release does not
//   understand the text. `whose` begins the sentence.
// Tests: tests/unit/job/plan_check_test.cc.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "job/job.h"

namespace downpour {

// `before`: as CanonicalJob writes it.
absl::Status CheckSamePlan(const JobSpec& job, const std::string& before, const std::string& whose);

// Whether leases of a plan of `before` training examples are of one of `now` as well. Then both numbers are the same,
// or the job's text has an entry by which the epochs of before keep theirs.
bool GrowsTo(const JobSpec& job, uint64_t before, uint64_t now);

}  // namespace downpour
