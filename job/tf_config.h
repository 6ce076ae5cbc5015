// TF_CONFIG and CLUSTER_SPEC, as TensorFlow and AI Platform set them, for the user's Python code.
//
//   const std::string text = TfConfigOf(job, {.type = TaskType::kWorker, .index = 2, .chief = "10.0.0.1:7000"});
//
// Shapes: `cluster` has one chief, and every worker and ps of the job; `task` is this one's; `job` has what the job's
//   trainingInput would say, by the names that AI Platform gives it there: python_module, args, scale_tier, counts.
// Addresses: the chief's where it is HOST:PORT. Every other one is of a name that resolves to nothing, since no
//   TensorFlow server listens at a task of ours: worker-0.invalid:2222 (RFC 2606).
// Source: TensorFlow's TFConfigClusterResolver; AI Platform's page on distributed training.
// Tests: tests/unit/job/tf_config_test.cc.
#pragma once

#include <cstdint>
#include <string>

#include "job/cluster_config.h"
#include "job/job.h"

namespace downpour {

struct TfTask {
  TaskType type = TaskType::kChief;
  int64_t index = 0;
  std::string chief = {};  // where it is reached; empty: not known
  std::string trial = {};  // its number, of a search for settings
};

std::string TfConfigOf(const JobSpec& job, const TfTask& task);

}  // namespace downpour
