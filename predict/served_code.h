// ServedCode: the user's Python code of a job, unpacked on this host, to answer with what the job has trained.
//
//   absl::StatusOr<ServedCode> code = FindServedCode("runs/own", checkpoint.job, DefaultCodeFolder());
//   PythonChild::Start(options, code->spec, code->unpacked.path, ...);
//
// Shapes: JOB_DIR/python as tools/cli/python_code.h has it: code.tar.gz, and job.json with its module and arguments.
//   That is the job's newest code. A checkpoint of older code is answered by it too, as a resumed job trains by it.
// Order: a stage may replace both at any time. What is found is of one stage.
// Errors: NOT_FOUND where the folder has no code; DATA_LOSS where it is not what the job names; those of CodeCache.
// Tests: tests/unit/predict/served_code_test.cc.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "job/job.h"
#include "runtime/posix/code_cache.h"

namespace downpour {

struct ServedCode {
  PythonSpec spec;
  CachedCode unpacked;
};

// `job`: as the checkpoint has it.
absl::StatusOr<ServedCode> FindServedCode(const std::string& job_dir, const JobSpec& job,
                                          const std::string& cache_folder);

// False: the archive of JOB_DIR is another than its job.json names, as where the two were read from two stages.
bool HasCodeOfItsJob(const std::string& job_dir);
inline constexpr int kMostStages = 5;  // tries to read both of one stage

// The files of JOB_DIR that FindServedCode reads, below it. The second need not be there.
inline constexpr const char* kServedCodeFiles[] = {kCodeFile, "python/job.json"};

}  // namespace downpour
