// Options by which several verbs are told which job: its file, AI Platform's config.yaml, a tier, single entries.
//
// Order: --set beats --scale-tier, which beats --config, which beats the job file, which beats what downpour.fit was
//   told.
// Tests: tests/unit/tools/cli/job_options_test.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "job/job_file.h"
#include "tools/cli/python_code.h"
#include "tools/cli/verbs.h"

namespace downpour {

struct JobOptions {
  std::string job_file;
  std::string config_file;
  std::string scale_tier;  // or BASIC, also spelt as gcloud does: standard-1
  std::vector<std::string> settings;
  PythonJob of_code;  // what the user's Python code says: its defaults come after the job file, its entries before
};

void AddJobOptions(CLI::App& app, JobOptions* options);

// STANDARD_1, also of standard-1 as gcloud spells it.
std::string TierNamed(std::string tier);

// What --config, or the job file's own trainingInput, says of Python code, where the command line does not. Of each
// package the path, or of a service's store the gs:// URI.
// Errors: INVALID_ARGUMENT with FILE:LINE for a package that cannot be had.
struct CodeOfFiles {
  PythonCode code = {};
  bool has_job_dir = false;  // so the module gets --job-dir
  std::string job_dir = {};  // as LoadConfigFile has it
};
enum class Store { kNone, kOfService };  // that gs:// names
absl::StatusOr<CodeOfFiles> AddCodeOfFiles(const JobOptions& options, PythonCode code, Store store);

// The job without what its Python code will say, as far as it can be read.
JobSpec KnownOf(const JobOptions& options);

// Runs the user's Python code, if there is some, up to the model that it makes, and takes that into the options.
// `folder` is for what is made on the way. Returns an exit code. What is wrong is told in the name of the verb.
int DescribeCode(const std::string& verb, const std::string& folder, const PythonCode& code, JobOptions* options,
                 Streams streams);

struct ChosenJob {
  JobFileResult parsed;                // its origins name --config's file and --scale-tier, too
  std::vector<std::string> overrides;  // all of them, as the chief's --set takes them
  std::string job_dir;                 // that a file names, if one does
};
// Tells on stderr every error and, in the name of the verb, every warning. A job with errors is returned as well.
ChosenJob LoadChosenJob(const JobOptions& options, const std::string& verb, Streams streams);

}  // namespace downpour
