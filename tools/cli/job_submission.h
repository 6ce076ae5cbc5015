// JobSubmission: what `downpour jobs submit` makes of its command line, for a service.
//
//   if (const std::string why = WhyNoSubmission(submission, code); !why.empty()) ...
//   const absl::StatusOr<nlohmann::json> body = BodyOf(submission, code, service, streams);
//
// Errors: of BodyOf INVALID_ARGUMENT, where the job file, the code or --config is at fault, and any other where the
//   service is.
// Tests: tests/unit/tools/cli/verb_jobs_test.cc, tests/process/test_job_service.py.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/cli/job_options.h"
#include "tools/cli/verbs.h"

namespace downpour {

class ServiceClient;

struct JobSubmission {
  std::string name, bucket_folder, config;
  std::vector<std::string> labels;
  JobOptions job;
  PythonCode code;
};

// `code`: that of the command line and of --config. Found before anything is sent; empty: nothing is in the way.
std::string WhyNoSubmission(const JobSubmission& submission, const PythonCode& code);

// What the service is sent. The code's archive is in its store then. A job of the user's Python code is one of AI
// Platform's, with the job file and the settings beside it; any other is a job file with its settings in it.
absl::StatusOr<nlohmann::json> BodyOf(const JobSubmission& submission, const PythonCode& code,
                                      const ServiceClient& service, Streams streams);

}  // namespace downpour
