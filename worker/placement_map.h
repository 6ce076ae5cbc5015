// Where each slice is, and in which epoch, by the newest placement.
//
//   absl::StatusOr<std::vector<SliceId>> moved = map.Changes(placement);   // with a new epoch; nothing changes yet
//   map.Adopt(placement, effects);   // dials new servers, and known ones at new addresses; hangs up on gone ones
//
// Order: (term, number) of the placement and the epoch of each slice only rise. A server is an incarnation, not a name;
//   a slice that moves does so in a new epoch.
// Errors: INVALID_ARGUMENT for a placement that breaks this, or does not name every slice once.
// Tests: tests/unit/worker/placement_map_test.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/role.h"
#include "runtime/world_time.h"
#include "schema/codec.h"
#include "schema/message.h"

namespace downpour {

// A push that is kept for its slice.
struct PushKey {
  LeaseId lease{};
  Step step = 0;
  SliceId slice{};
  auto operator<=>(const PushKey&) const = default;  // the order in which pushes leave
};

// One ps as this worker talks to it.
struct PsLink {
  PeerId peer{};
  Incarnation incarnation{};
  std::string name;
  std::string endpoint;
  std::vector<SliceId> slices;
  uint64_t window = kMaxMessagePayload;  // as it last announced; before, one message
  uint64_t unanswered = 0;               // bytes of pushes and of awaited values
  std::set<PushKey> ready;               // to be sent, as far as the window allows
  Time oldest_push = Time::max();        // no push that is sent and unanswered left before that
  uint64_t pull = 0;                     // the round of pulls (PullRound::begun) of which...
  size_t asked = 0;                      // ...so many slices, the first of `slices`, are asked for or there

  static constexpr int kMaxBackoff = 8;
  int backoff = 1;  // in data_retry: doubled when something is sent again, 1 with each answer
  Time heard;       // the last answer

  // Whether so many more may go: a message that nothing else waits for always may.
  bool HasCredit(uint64_t bytes) const { return unanswered == 0 || unanswered + bytes <= window; }

  // Whether what left at `sent` is to be sent again: not while the ps answers other things, since it may stand in a
  // queue behind them; but at last, since it may be lost.
  bool Overdue(Time sent, Time now, Duration data_retry) const {
    return now - std::max(sent, heard) >= backoff * data_retry || now - sent >= kMaxBackoff * data_retry;
  }
  // Whether that may be so of any push: what left later is overdue later.
  bool AnyOverdue(Time now, Duration data_retry) const {
    return oldest_push <= now && Overdue(oldest_push, now, data_retry);
  }
  void BackOff() { backoff = std::min(2 * backoff, kMaxBackoff); }
  void OnReply(uint64_t announced, Time now) {
    window = announced;
    heard = now;
    backoff = 1;
  }
};

class PlacementMap {
 public:
  // `first_peer`: connections are numbered from there.
  PlacementMap(size_t slices, PeerId first_peer)
      : next_peer_(ToNumber(first_peer)), epochs_(slices), link_of_(slices) {}

  bool Newer(const Placement& placement) const;
  absl::StatusOr<std::vector<SliceId>> Changes(const Placement& placement) const;
  // `placement` is newer and Changes has found no fault with it. Returns the links to known processes that are at
  // another address now: what was sent to the old one may be lost.
  std::vector<PeerId> Adopt(const Placement& placement, Effects& effects);
  // Hangs up on everybody and knows nothing any more.
  void Clear(Effects& effects);

  PeerId next_peer() const { return PeerId{next_peer_}; }
  uint32_t term() const { return term_; }
  uint64_t number() const { return number_; }  // 0: none yet
  const std::vector<SliceEpoch>& epochs() const { return epochs_; }
  SliceEpoch epoch(SliceId slice) const { return epochs_[ToNumber(slice)]; }
  PsLink& link_of(SliceId slice) { return *link_of_[ToNumber(slice)]; }
  std::vector<std::unique_ptr<PsLink>>& links() { return links_; }
  const std::vector<std::unique_ptr<PsLink>>& links() const { return links_; }
  PsLink* Find(PeerId peer);

 private:
  const PsLink* Find(Incarnation incarnation) const;

  uint64_t next_peer_;
  uint32_t term_ = 0;
  uint64_t number_ = 0;
  std::vector<SliceEpoch> epochs_;  // by slice
  std::vector<PsLink*> link_of_;    // by slice
  std::vector<std::unique_ptr<PsLink>> links_;
};

}  // namespace downpour
