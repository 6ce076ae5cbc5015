// Predictors of checkpoints made by hand.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "predict/open_predictor.h"
#include "tests/unit/tools/cli/made_checkpoint.h"

namespace downpour {

// A model that says class c where pixel c is lit: kernel [4, 3] with 2 on the diagonal, no bias.
inline float Diagonal(uint32_t variable, int64_t i) { return variable == 0 && i / 3 == i % 3 ? 2.0f : 0.0f; }

inline JobSpec JobOf(const std::string& model, const std::string& data) {
  const JobFileResult job = ParseJob("name: made\nmodel: " + model + "\ndata: " + data + "\n", "made");
  for (const JobError& error : job.errors) ADD_FAILURE() << ToString(error);
  return job.job;
}

// One output that is the sum of all that the model reads: age, tall or not, the three numbers of place.
inline JobSpec JobWithColumns() {
  return JobOf(
      "{inputs: [{name: all, columns: [age, job, place]}], layers: [{name: out, dense: {units: 1}}], "
      "loss: meanSquaredError}",
      "{format: jsonl, train: /nowhere/a, label: {column: pay, scale: {mean: 100, deviation: 10}}, "
      "columns: [{name: age, default: 40, scale: {mean: 40, deviation: 10}}, "
      "{name: job, vocabulary: [cook, smith]}, {name: place, width: 3}]}");
}

// Weights 1, 2, 3, ... and the bias 0.
inline float Counting(uint32_t variable, int64_t i) { return variable == 0 ? static_cast<float>(i + 1) : 0.0f; }

template <typename Values>
std::shared_ptr<const Predictor> MadePredictor(const std::string& name, const JobSpec& job, const Values& values,
                                               const PredictorOptions& options = {}) {
  const std::string folder = FreshFolder(name);
  MakeCheckpoint(folder, job, {1, 1}, values);
  auto predictor = OpenPredictor(folder, options);
  EXPECT_TRUE(predictor.ok()) << predictor.status();
  return predictor.ok() ? *predictor : nullptr;
}

}  // namespace downpour
