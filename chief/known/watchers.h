// Watchers: command-line tools that ask for the status again and again. The chief tells them how the job ended before
// it exits, since nobody answers them after that.
//
//   watchers.Asked(now, peer, request);
//   for (PeerId peer : watchers.Waiting(now)) effects.SendTo(peer, StatusReply{...});   // until they know
//
// Order: a watcher waits until it says that it knows the end, or is overdue: it ended, or is out of reach.
// Cost: at most kMost are known; of more the one that asked first is forgotten.
// Tests: tests/unit/chief/watchers_test.cc, chief_end_test.cc.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "runtime/role.h"
#include "runtime/world_time.h"

namespace downpour {

class Watchers {
 public:
  static constexpr size_t kMost = 64;
  // After the time at which it was to ask again.
  static constexpr Duration kOverdueAfter = 5s;
  static constexpr Duration kLongestPause = 3600s;

  void Asked(Time now, PeerId peer, const StatusRequest& request);
  std::vector<PeerId> Waiting(Time now);

 private:
  std::deque<std::pair<PeerId, Time>> overdue_at_;  // the one that asked last is at the end
};

}  // namespace downpour
