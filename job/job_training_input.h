// AI Platform's config.yaml: what its `trainingInput` means for a job of ours.
//
// Shapes: the whole file's map, with jobId, labels and trainingInput at its top; other keys are not looked at.
// Errors: unknown keys, wrong types and values that AI Platform would refuse as well; what it understands and has no
//   meaning here is a warning.
// Source: the Google Cloud SDK's ml_v1_messages.py (GoogleCloudMlV1__TrainingInput); AI Platform's machine types page.
// Tests: tests/unit/job/job_training_input_test.cc.
#pragma once

#include <string>
#include <vector>

#include "job/job_reader.h"
#include "job/yaml_tree.h"

namespace downpour {

// An entry of the job as --set takes it, and the line that says so.
struct PlacedEntry {
  std::string entry;
  int line = 0;
};

// The user's Python code, as it says. Each with the line that says so.
struct TrainingCode {
  std::string module;                 // pythonModule; empty: it names none
  std::vector<PlacedEntry> packages;  // packageUris, as they stand there
  std::vector<std::string> args;      // all of `args`
  bool has_job_dir = false;           // so the module gets --job-dir behind them
};

struct TrainingInput {
  // What it comes to. AI Platform's master trains, so there is one worker more than its workerCount.
  std::vector<PlacedEntry> cluster_and_scheduling;
  std::vector<PlacedEntry> arguments;  // those of its `args` that are a --set; of a Python module all are its own
  TrainingCode code;
  std::string job_dir;
  std::vector<JobError> warnings;
};

// Every scaleTier that it may name, and what one with other machines, BASIC_GPU and BASIC_TPU, is here.
std::vector<std::string> KnownTiers();
struct TierHere {
  std::string name;  // of kScaleTiers, or CUSTOM
  std::string why;   // "BASIC_GPU runs as BASIC; ..."; empty where it is the same one
};
TierHere WhatTierIsHere(const std::string& tier);

// `has_module`: the command line names the Python module, so that `args` are its own.
TrainingInput ReadTrainingInput(const YamlNode& root, const std::string& file, JobErrors& errors,
                                bool has_module = false);

// Takes it out of the tree of a job file that holds it, and puts what it comes to in its place. jobId becomes the name.
TrainingInput ReplaceTrainingInput(YamlNode& root, const std::string& file, JobErrors& errors);

}  // namespace downpour
