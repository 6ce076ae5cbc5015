// Checkpoints as tools read them: every byte checked, with no chief running.
//
//   auto checkpoint = LoadCheckpoint("runs/first", "", &passed_over);
//
// Order: the newest valid one is found by reading, never remembered: a damaged one is passed over, and said so.
// Cost: all values in memory, and one slice's optimizer slots at a time.
// Errors: NOT_FOUND where there is none, DATA_LOSS naming the file for what is damaged, INVALID_ARGUMENT for what no
//   writer of ours makes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/checkpoint_format.h"
#include "schema/job.h"
#include "schema/payload.h"
#include "schema/slice_grid.h"

namespace downpour {

struct LoadedCheckpoint {
  std::string path;  // JOB_DIR/checkpoints/TERM-N
  Manifest manifest;
  JobSpec job;
  SliceGrid grid;
  // By slice. Since slices are numbered by variable, then by offset, a variable's values are a run of these.
  std::vector<Payload> values;
  std::vector<uint64_t> versions;
};

// `round` is TERM-N; if it is empty, the newest valid one is taken and `passed_over` gets a sentence for each newer
// one.
absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(const std::string& job_dir, const std::string& round,
                                                std::vector<std::string>* passed_over);

}  // namespace downpour
