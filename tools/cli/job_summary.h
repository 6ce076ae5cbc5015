// What a job would run, in words.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "job/job_file.h"
#include "tools/cli/data_facts.h"

namespace downpour {

// Cluster, model with its slices, bytes per server, and steps where the examples are known. `job` is valid.
std::string JobSummary(const JobSpec& job, const DataFacts& facts);
// The same as docs/JOB_FILE.md has it.
nlohmann::json JobSummaryJson(const JobSpec& job, const DataFacts& facts);

}  // namespace downpour
