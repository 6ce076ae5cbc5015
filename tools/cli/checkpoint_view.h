// A checkpoint for people and for programs: its plan, how far the data are, its variables and its slices.
//
// Tests: tests/unit/tools/cli/verb_checkpoint_test.cc.
#pragma once

#include <string>

#include "tools/cli/checkpoint_reader.h"

namespace downpour {

std::string CheckpointTable(const LoadedCheckpoint& checkpoint, bool each_slice);

// Members as docs/CHECKPOINT_FORMAT.md has them.
std::string CheckpointJson(const LoadedCheckpoint& checkpoint);

// "2024-11-20 10:43:05 UTC"
std::string HumanTime(int64_t unix_ms);

}  // namespace downpour
