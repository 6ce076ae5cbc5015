// Time as roles see it: handed in with every step, monotonic, of unspecified origin. Nothing here reads a clock.
#pragma once

#include <chrono>

namespace downpour {

using Duration = std::chrono::nanoseconds;

// The driver's steady clock or the simulator's; deliberately without now().
struct WorldClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<WorldClock>;
  static constexpr bool is_steady = true;
};
using Time = WorldClock::time_point;

inline double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

}  // namespace downpour
