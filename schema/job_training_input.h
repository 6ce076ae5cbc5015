// AI Platform's config.yaml: what its `trainingInput` means for a job of ours.
//
// Shapes: the whole file's map, with jobId, labels and trainingInput at its top; other keys are not looked at.
// Errors: unknown keys, wrong types and values that AI Platform would refuse as well; what it understands and has no
//   meaning here is a warning.
// Source: the Google Cloud SDK's ml_v1_messages.py (GoogleCloudMlV1__TrainingInput); AI Platform's machine types page.
// Tests: tests/unit/schema/job_training_input_test.cc.
#pragma once

#include <string>
#include <vector>

#include "schema/job_reader.h"
#include "schema/yaml_tree.h"

namespace downpour {

struct TrainingInput {
  // What it comes to, as --set takes it. AI Platform's master trains, so there is one worker more than its workerCount.
  std::vector<std::string> cluster_and_scheduling;
  std::vector<std::string> arguments;  // those of its `args` that are a --set
  std::string job_dir;
  std::vector<JobError> warnings;
};

TrainingInput ReadTrainingInput(const YamlNode& root, const std::string& file, JobErrors& errors);

// Takes it out of the tree of a job file that holds it, and puts what it comes to in its place. jobId becomes the name.
TrainingInput ReplaceTrainingInput(YamlNode& root, const std::string& file, JobErrors& errors);

}  // namespace downpour
