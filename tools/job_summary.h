// What a job would run, in words.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "schema/job_file.h"

namespace downpour {

// What the headers of the job's data files say, as far as they can be read on this machine.
struct DataFacts {
  std::optional<uint64_t> train_examples;
  std::optional<uint64_t> eval_examples;
  std::vector<JobError> errors;     // of files that are here, but not whole, or do not fit each other or the model
  std::vector<std::string> absent;  // files that are not here: no error, since only the workers need them
};
DataFacts LookAtData(const JobSpec& job);

// Cluster, model with its slices, bytes per server, and steps where the examples are known. `job` is valid.
std::string JobSummary(const JobSpec& job, const DataFacts& facts);
// The same as docs/JOB_FILE.md has it.
nlohmann::json JobSummaryJson(const JobSpec& job, const DataFacts& facts);

}  // namespace downpour
