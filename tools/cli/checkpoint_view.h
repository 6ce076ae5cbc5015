// A checkpoint for people and for programs: its plan, how far the data are, its variables and its slices.
//
// Tests: tests/unit/tools/cli/verb_checkpoint_test.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "checkpoint/checkpoint_reader.h"

namespace downpour {

// `best`: what the journal says of it, if it names this one.
std::string CheckpointTable(const LoadedCheckpoint& checkpoint, const BestRecord& best, bool each_slice);

// Members as docs/CHECKPOINT_FORMAT.md has them.
std::string CheckpointJson(const LoadedCheckpoint& checkpoint, const BestRecord& best);

// "the best: loss 0.07 after 3 epochs"
std::string DescribeBest(const BestRecord& best);
// As the status has it, without the checkpoint itself.
nlohmann::json BestJson(const BestRecord& best);

// "2024-11-20 10:43:05 UTC"
std::string HumanTime(int64_t unix_ms);

}  // namespace downpour
