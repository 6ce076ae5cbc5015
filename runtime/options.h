// Tunables of the roles, given by constructor. Each says its unit, its reason and the range from which the simulator
// draws.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/world_time.h"

namespace downpour {

struct Timing {
  // How often the world sends a Tick: the grain of every deadline below. Simulator: 5 to 50 ms.
  Duration tick = 20ms;
  // A task tells the chief that it lives. Simulator: 100 ms to 1 s.
  Duration heartbeat = 500ms;
  // Silence after which the chief hands a worker's leases on, and lets another process take the place of a ps. Long
  // enough for a swapping host. Simulator: 1 to 10 s.
  Duration dead_after = 5s;
  // An unanswered control message is sent again. Simulator: 50 ms to 2 s.
  Duration control_retry = 500ms;
  // A ps that has been silent for so long is sent its unanswered pushes, pulls and probes again. Simulator: 50 ms to
  // 2 s.
  Duration data_retry = 2s;
  // A refused or unanswered Join is sent again. Simulator: 50 ms to 1 s.
  Duration join_retry = 500ms;
};

struct Window {
  // Bytes one worker may have unanswered at one ps: two full steps of a mid-sized model; times the workers this bounds
  // the memory of a ps. Simulator: one slice to 8 MiB.
  uint64_t bytes = uint64_t{8} << 20;
};

// From being told to stop to leaving, whatever is still unanswered: of the 30 s of a spot machine's notice.
inline constexpr Duration kWorkerLeavesWithin = 20s;
// Where chief and ps are told at once, the chief's last checkpoint has 20 s and needs them till its end.
inline constexpr Duration kPsLeavesWithin = 22s;

// How long one call of the user's Python code may take until a line says where it is. A job that ends out of time, amid
// such a call, has that line by then. `limit`: scheduling.maxRunningTime, 0: none.
inline constexpr Duration CodePatience(Duration limit) {
  return limit == Duration::zero() ? 30s : std::min<Duration>(limit / 4, 30s);
}

// Steps of one lease that a worker may have pushed and not yet seen acknowledged. Simulator: 1 to 4.
inline constexpr int kDefaultStepsInFlight = 2;
// Leases a worker holds at once: the next one is there when the last one's final push leaves. Simulator: 1 to 3.
inline constexpr int kDefaultLeasesHeld = 2;
// And at most, whatever a worker asks for: enough to hide a slow link, few to hand on when it dies.
inline constexpr uint64_t kMostLeasesHeld = 16;
// Staleness is counted exactly up to this; above, together.
inline constexpr int kStalenessBuckets = 64;

}  // namespace downpour
