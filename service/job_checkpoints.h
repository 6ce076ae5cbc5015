// The checkpoints of a job, as a page lists them: newest first, {"round", "state", "why"} and, of those whose manifest
// can be read, {"unixMs", "bytes", "leasesCommitted"}. `state` is complete, damaged or unfinished, as `downpour
// checkpoint list` has it (docs/CHECKPOINT_FORMAT.md).
//
// Cost: reads the manifests, and of the other files their sizes.
// Tests: tests/unit/service/job_checkpoints_test.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "service/job.h"

namespace downpour {

nlohmann::json ListCheckpoints(const std::string& job_dir);

// What a person types to continue a job that failed or was cancelled. Empty of any other one, where no checkpoint is
// complete, and where no chief said by what command it was started.
std::string CommandToResume(const Job& job, const std::string& job_dir);

}  // namespace downpour
