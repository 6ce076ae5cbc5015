// What a worker says of itself that computes, but reads its examples for more than half of the time. So it waits for
// them, and yet the job moves: whoever asks whether it does takes this for no wait.
#pragma once

#include "schema/message_membership.h"

namespace downpour {

inline constexpr char kReadsMostOfTheTime[] = "its data, more than half of the time";

inline bool WaitsForNothing(const TaskStats& stats) {
  return stats.waiting_for.empty() || stats.waiting_for == kReadsMostOfTheTime;
}

}  // namespace downpour
