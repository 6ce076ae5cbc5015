// A job file from the disk, its relative data paths made absolute: how the chief and the command-line tool begin.
//
// Errors: a file that cannot be read is an error of the result, like those in the file.
// Tests: tests/unit/runtime/posix/job_file_test.cc.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "job/job_file.h"
#include "job/job_training_input.h"

namespace downpour {

// The file's text; of one that is longer than a job may be, enough to see that.
// Errors: UNAVAILABLE with the system's reason.
absl::StatusOr<std::string> ReadJobText(const std::string& path);
// Likewise, of a file that a job names. INVALID_ARGUMENT for what is no regular file, as a pipe, which might never end.
absl::StatusOr<std::string> ReadNamedText(const std::string& path);

JobFileResult LoadJobFile(const std::string& path, const std::vector<std::string>& overrides = {});
// As ParseJobOfCode reads it.
JobFileResult LoadJobFileOfCode(const std::string& path, const std::vector<std::string>& overrides);

// AI Platform's config.yaml beside a job file.
struct ConfigFileResult {
  std::vector<PlacedEntry> overrides;  // what its trainingInput means for the job, then its section downpour
  TrainingCode code;
  std::string job_dir;
  std::vector<JobError> warnings;
  std::vector<JobError> errors;
};
// `has_module`: as of ReadTrainingInput.
ConfigFileResult LoadConfigFile(const std::string& path, bool has_module = false);

// What a job file's own trainingInput says of Python code; nothing where it has none, or cannot be read.
TrainingCode LoadCodeOfJobFile(const std::string& path, bool has_module);

}  // namespace downpour
