// Simulated time: what happens next, ordered by (time, sequence), so that one seed gives one history.
//
//   EventQueue events;
//   events.After(3ms, [&] { ...; });
//   while (events.RunNext()) {}
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "runtime/world_time.h"

namespace downpour {

class EventQueue {
 public:
  using Action = std::function<void()>;

  Time now() const { return now_; }
  // Order: actions for one instant run in the order in which they were added. A time in the past means now.
  void At(Time when, Action action) { queue_.emplace(std::pair(std::max(when, now_), ++sequence_), std::move(action)); }
  void After(Duration delay, Action action) { At(now_ + delay, std::move(action)); }

  // Runs the next action; false if there is none.
  bool RunNext() {
    if (queue_.empty()) return false;
    auto next = queue_.extract(queue_.begin());
    now_ = next.key().first;
    next.mapped()();
    return true;
  }
  bool empty() const { return queue_.empty(); }

 private:
  Time now_{};
  uint64_t sequence_ = 0;
  std::map<std::pair<Time, uint64_t>, Action> queue_;
};

}  // namespace downpour
