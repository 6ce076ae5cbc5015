// InputShare: whether reading examples bounds a worker's rate, by what its device says of each step.
//
//   share.Add(gradients.reading, now);            // as a step ends
//   if (share.bounds_rate()) ...it waits for its data...
//
// Order: it is judged over kWindow or more, from the end of one step to that of another one. Nobody knows when the
//   first step began, so it counts for nothing.
// Tests: tests/unit/worker/input_share_test.cc.
#pragma once

#include <optional>

#include "runtime/world_time.h"

namespace downpour {

class InputShare {
 public:
  static constexpr Duration kWindow = std::chrono::seconds(10);

  // `reading`: how long the device did nothing but read, for this step.
  void Add(Duration reading, Time now) {
    reading_ += reading;
    if (since_ && now - *since_ < kWindow) return;
    bounds_rate_ = since_ && 2 * reading_ > now - *since_;
    since_ = now;
    reading_ = {};
  }
  // More than half of the last window was spent reading.
  bool bounds_rate() const { return bounds_rate_; }

 private:
  std::optional<Time> since_;
  Duration reading_{};
  bool bounds_rate_ = false;
};

}  // namespace downpour
