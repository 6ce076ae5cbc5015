// How fast a count rises, over the last few seconds.
//
// Units: per second.
// Cost: a sample is kept while it is in the window, and one older than it, so that a slow count still has two points.
//   Samples closer than kGrain count as one: those that a broken link held back all come at one moment, and the older
//   of their counts would pass for the one of that moment.
// Tests: tests/unit/chief/rate_window_test.cc.
#pragma once

#include <deque>
#include <utility>

#include "runtime/world_time.h"

namespace downpour {

class RateWindow {
 public:
  static constexpr Duration kWindow = 5s;
  static constexpr Duration kGrain = 50ms;

  void Add(Time now, double total);
  // Until news are overdue the rate is that up to the last sample; from then on it falls.
  double PerSecond(Time now) const;

 private:
  std::deque<std::pair<Time, double>> samples_;
};

}  // namespace downpour
