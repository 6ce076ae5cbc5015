// The user's Python code, as a job is submitted: what model it makes. staged_code.h puts it into the job folder.
//
//   absl::StatusOr<PythonJob> python = DescribePythonCode(code, job, scratch, job_dir);   // runs it up to downpour.fit
//   options.of_code = python->entries; options.defaults_of_code = python->defaults;
//
// Shapes: JOB_DIR/python holds code.tar.gz (what workers import), description.json and initial.safetensors (the model,
//   as python/downpour/child.py writes it), and job.json (the job with all of that in it, as the chief reads it).
// Errors: INVALID_ARGUMENT for a package that is none, or where the code refuses; ABORTED where it fails. It has said
//   why on stderr then. DEADLINE_EXCEEDED, with the line, where it does not come to its model within the job's
//   scheduling.maxRunningTime.
// Tests: tests/process/test_python.py.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/job.h"
#include "schema/payload.h"
#include "tools/cli/python_packages.h"

namespace CLI {
class App;
}

namespace downpour {

inline constexpr char kModuleOption[] = "--module-name";

void AddPythonOptions(CLI::App& app, PythonCode* code);

// --packages alone. It may be repeated, and each time name several.
void AddPackagesOption(CLI::App& app, const std::string& help, std::vector<std::string>* packages);

// Those that one --packages names: a file of just that name; else what stands between commas, each up to the ending of
// a package. So a comma may be a part of a name.
std::vector<std::string> PackagesIn(const std::string& given);

// What is said of a module that is not named; empty: nothing.
std::string WhyNoCode(const PythonCode& code);

// Entries of a job file, KEY=VALUE.
struct PythonJob {
  std::vector<std::string> entries;   // that beat the file: the model, its data, the code
  std::vector<std::string> defaults;  // that the file beats: what downpour.fit was told
  std::vector<std::string> metrics;   // that the code computes, by name
  bool takes_one_example = true;      // in a batch, as far as that was tried; batch norm needs two
  Payload archive = {};               // of the code, as GatherCode makes it
};

// `job`: as far as it is known, for TF_CONFIG. `folder` gets description.json and initial.safetensors, and what is made
// on the way. `job_dir`: where the code will lie.
absl::StatusOr<PythonJob> DescribePythonCode(const PythonCode& code, const JobSpec& job, const std::string& folder,
                                             const std::string& job_dir);

// Of one of these errors: 78 where the code, or what was named of it, is refused; 1 where it failed; 124 out of time.
int ExitCodeOfCode(const absl::Status& error);

}  // namespace downpour
