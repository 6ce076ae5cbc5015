// A job whose model is variables of somebody's Python code: as many slices as a benchmark wants, of the size it wants.
#pragma once

#include <glog/logging.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"

namespace downpour {

// So many variables of so many numbers each; a slice has at most kMaxSliceElements of one variable.
inline JobSpec JobOfVariables(int64_t variables, int64_t elements) {
  std::string text = R"(
name: bench
python: {module: task, sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad, bytes: 3}
training: {batchSize: 1, leaseBatches: 64, staleness: {method: none}}
data: {format: python, trainExamples: 1073741824}
model:
  initializeFrom: /initial.safetensors
  variables:
)";
  for (int64_t i = 0; i < variables; ++i) absl::StrAppend(&text, "    - {name: v", i, ", shape: [", elements, "]}\n");
  JobFileResult parsed = ParseJob(text, "bench", {});
  CHECK(parsed.errors.empty()) << ToString(parsed.errors.front());
  return std::move(parsed.job);
}

}  // namespace downpour
