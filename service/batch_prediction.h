// Batch predictions: jobs that answer the rows of files by a model, and write files. `downpour answer-files` does it in
// a process of its own, as any job runs.
//
//   BatchPlan plan = ...the paths of what BatchInputOf(job) names...;
//   absl::Status done = AnswerFiles(plan);
//
// Shapes: each line of an input is one instance. The predictions of input I of N, a line each, are in the output
//   folder's prediction.results-0000I-of-0000N. Rows that cannot be predicted are in
//   prediction.errors_stats-00000-of-00001, with file, line and reason.
// Order: a file of results has its name once it is whole.
// Errors: of AnswerFiles, those of OpenPredictor and WarmUp, and UNAVAILABLE where a file cannot be read or written, or
//   where the user's code, which a row has ended, is not there again in the time of a start. A row that does not fit is
//   no error of the job.
// Source: the Google Cloud SDK's ml_v1_messages.py (GoogleCloudMlV1PredictionInput, GoogleCloudMlV1PredictionOutput).
// Tests: tests/process/test_predictions.py, test_predictions_gcloud.py.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/batch_input.h"
#include "service/job.h"

namespace downpour {

BatchInput BatchInputOf(const Job& job);  // of one that is a prediction

struct BatchPlan {
  std::string model;                // the path that OpenPredictor takes
  std::string checkpoint = {};      // and which of its checkpoints
  std::vector<std::string> inputs;  // paths
  std::string output;               // a folder's path
  std::string progress = {};        // the file in which it is told; empty: nowhere
  std::string python = {};          // that runs the user's code, where the model is that; empty: the usual one
};

struct BatchProgress {
  double done = 0;  // of 1
  uint64_t predictions = 0, errors = 0;
};

absl::Status WritePlan(const BatchPlan& plan, const std::string& path);
absl::StatusOr<BatchPlan> ReadPlan(const std::string& path);
absl::Status AnswerFiles(const BatchPlan& plan);

// As far as the job's folder tells.
BatchProgress ProgressOfBatch(const std::string& job_dir);
std::string BatchProgressPath(const std::string& job_dir);
// predictionOutput of ml v1.
nlohmann::json BatchOutputOf(const Job& job, const std::string& job_dir);

}  // namespace downpour
