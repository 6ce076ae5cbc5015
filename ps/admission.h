// What of a worker's message may come in: names within the grid and the plan, gradients of exactly the slice's size,
// answers within one message. All of a message is admitted or nothing.
//
// Errors: INVALID_ARGUMENT with one sentence; the sender broke the protocol and is ejected.
// Tests: tests/unit/ps/admission_test.cc.
#pragma once

#include <cstddef>
#include <set>

#include "absl/status/status.h"
#include "runtime/plan.h"
#include "schema/message.h"
#include "schema/slice_grid.h"

namespace downpour {

absl::Status Admit(const Push& push, const SliceGrid& grid, const Plan& plan);
absl::Status Admit(const Probe& probe, const SliceGrid& grid, const Plan& plan);
absl::Status Admit(const Pull& pull, const SliceGrid& grid, const Plan& plan);

// Who broke the protocol here. Bounded: a sender that makes up names for itself pushes out the oldest.
class EjectedPeers {
 public:
  static constexpr size_t kMost = 1024;

  bool Contains(Incarnation peer) const { return peers_.contains(peer); }
  void Add(Incarnation peer) {
    peers_.insert(peer);
    if (peers_.size() > kMost) peers_.erase(peers_.begin());
  }

 private:
  std::set<Incarnation> peers_;
};

}  // namespace downpour
