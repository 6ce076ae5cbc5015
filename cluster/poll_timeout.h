// A span of time as poll takes it. Less than nothing is nothing: -1 would be for ever. Rounded up, so that it is over
// afterwards, and cut at what an int holds, some 24 days.
//
// Tests: tests/unit/cluster/poll_timeout_test.cc.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

namespace downpour {

inline int PollTimeout(std::chrono::nanoseconds left) {
  using std::chrono::milliseconds;
  const auto longest = milliseconds(std::numeric_limits<int>::max());
  return static_cast<int>(std::clamp(std::chrono::ceil<milliseconds>(left), milliseconds(0), longest).count());
}

}  // namespace downpour
