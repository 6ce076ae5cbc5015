// A model as `downpour export` wrote it: docs/MODEL_FILE.md.
//
//   absl::StatusOr<JobSpec> job = JobOfExport("model.safetensors");
//
// Errors: NOT_FOUND and the like of the disk; INVALID_ARGUMENT for a file that has no job in it, as other programs
//   write them.
// Tests: tests/unit/predict/open_predictor_test.cc.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "job/job.h"

namespace downpour {

// The job in the file's metadata, with model.initializeFrom as the file.
absl::StatusOr<JobSpec> JobOfExport(const std::string& path);

}  // namespace downpour
