// A small job file as text, and what the parser says of changed ones.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "job/job_file.h"

namespace downpour {

inline constexpr char kJob[] = R"(name: mnist
cluster: {workerCount: 4, parameterServerCount: 2}
model:
  inputs: [{name: image, shape: [28, 28, 1]}]
  layers:
    - dense: {units: 256, activation: relu}
    - dense: {units: 10}
training:
  batchSize: 64
  epochs: 10
  optimizer: {name: momentum, learningRate: 0.02, momentum: 0.9}
data:
  train: {images: a, labels: b}
checkpoint: {every: 30s, keep: 3}
)";

inline std::vector<std::string> ErrorsOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> errors;
  for (const JobError& error : ParseJob(text, "j.yaml", overrides).errors) errors.push_back(ToString(error));
  return errors;
}

// kJob with the only occurrence of `from` replaced.
inline std::string With(const std::string& from, const std::string& to) {
  std::string text = kJob;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  EXPECT_EQ(text.find(from, at + 1), std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

inline std::string OnlyError(const std::string& text) {
  const std::vector<std::string> errors = ErrorsOf(text);
  return errors.size() == 1 ? errors[0] : "errors: " + std::to_string(errors.size());
}

}  // namespace downpour
