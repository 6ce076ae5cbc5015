// What a worker says of itself that computes, but reads its examples for more than half of the time. So it waits for
// them, and yet the job moves: whoever asks whether it does takes this for no wait.
#pragma once

namespace downpour {

inline constexpr char kReadsMostOfTheTime[] = "its data, more than half of the time";

}  // namespace downpour
