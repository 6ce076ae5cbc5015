// The states that a job goes through, and their names.
#pragma once

#include <cstdint>

namespace downpour {

// As `state` in docs/STATUS.md.
enum class JobState : uint8_t { kQueued, kPreparing, kRunning, kSucceeded, kFailed, kCancelling, kCancelled };
const char* NameOf(JobState state);  // QUEUED, PREPARING and so on

}  // namespace downpour
