#include "chief/known/watchers.h"

#include <algorithm>
#include <chrono>

namespace downpour {

void Watchers::Asked(Time now, PeerId peer, const StatusRequest& request) {
  std::erase_if(overdue_at_, [peer](const auto& watcher) { return watcher.first == peer; });
  if (request.again_in_ms == 0 || request.knows_end) return;
  constexpr uint64_t kLongest = kLongestPause / 1ms;
  const auto pause = std::chrono::milliseconds(std::min(request.again_in_ms, kLongest));
  if (overdue_at_.size() == kMost) overdue_at_.pop_front();
  overdue_at_.emplace_back(peer, now + pause + kOverdueAfter);
}

std::vector<PeerId> Watchers::Waiting(Time now) {
  std::erase_if(overdue_at_, [now](const auto& watcher) { return watcher.second <= now; });
  std::vector<PeerId> waiting;
  for (const auto& [peer, overdue] : overdue_at_) waiting.push_back(peer);
  return waiting;
}

}  // namespace downpour
