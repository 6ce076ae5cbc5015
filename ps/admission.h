// What of a worker's message may come in: names within the grid and the plan, gradients that fit their slices
// (ps/guarded_state.h), answers within one message. All of a message is admitted or nothing.
//
// Errors: INVALID_ARGUMENT with one sentence; the sender broke the protocol and is ejected.
// Tests: tests/unit/ps/admission_test.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>

#include "absl/status/status.h"
#include "job/slice_grid.h"
#include "runtime/plan.h"
#include "runtime/role.h"
#include "schema/message.h"

namespace downpour {

absl::Status Admit(const Push& push, const SliceGrid& grid, const Plan& plan);
absl::Status Admit(const Probe& probe, const SliceGrid& grid, const Plan& plan);
absl::Status Admit(const Pull& pull, const SliceGrid& grid, const Plan& plan);

// Who broke the protocol here: connections, and the processes they said to be. Bounded: the oldest is forgotten.
class EjectedPeers {
 public:
  static constexpr size_t kMost = 1024;

  bool Contains(PeerId connection, Incarnation process) const {
    return std::any_of(peers_.begin(), peers_.end(),
                       [&](const Peer& peer) { return peer.connection == connection || peer.process == process; });
  }
  void Add(PeerId connection, Incarnation process) {
    peers_.push_back({connection, process});
    if (peers_.size() > kMost) peers_.pop_front();
  }

 private:
  struct Peer {
    PeerId connection{};
    Incarnation process{};
  };
  std::deque<Peer> peers_;
};

}  // namespace downpour
