// The options by which a verb is told which checkpoint to read.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/checkpoint_reader.h"
#include "tools/cli/verbs.h"

namespace downpour {

struct CheckpointOption {
  std::string job_dir;
  std::string round;  // TERM-N, kBestCheckpoint, or empty for the newest valid one
};

// What is wrong with a checkpoint's name; empty: nothing.
std::string CheckRound(const std::string& name);

void AddCheckpointOption(CLI::App& app, CheckpointOption* option,
                         const std::string& help = "Which one, or best; without it the newest valid one");

// Reads no values: the newest one is that whose files are as long as they should be. Tells on stderr, in the name of
// the verb, why there is none.
std::optional<Checkpoint> OpenChosen(const CheckpointOption& option, const std::string& verb, Streams streams);

// Reads every byte. Tells likewise, and what was passed over.
std::optional<LoadedCheckpoint> LoadChosen(const CheckpointOption& option, const std::string& verb, Streams streams);

}  // namespace downpour
