// Whether a push may count now. It stands between judging that a push is the next one of its lease and consuming it.
//
//   const ConsistencyPolicy policy(training);
//   const SliceRefusal refusal = policy.RefusalOf(lease, staleness, counters, plan);   // kNone: it may
//
// async: every push counts at once, unless it is staler than training.maxStaleness.
// ssp (stale synchronous parallel): likewise, but only of leases within reach: a lease of a group may be begun when all
//   groups up to sspBound + 1 before it are finished. So nobody is further ahead of the slowest.
// sync: of the group that is under way alone, and with no staleness at all. The gradients of a group are summed, and
//   change the values together, when its last one has come.
//
// The chief grants leases within reach alone, by what is committed on every slice. So a push is early only where its
// slice went back to an older state after the grant. A dropped push is not consumed: its step is still the next one.
//
// Cost: O(log intervals) of the slice's finished leases.
// Source: Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013; Chen
//   et al., "Revisiting Distributed Synchronous SGD", 2016.
// Tests: tests/unit/ps/consistency_policy_test.cc.
#pragma once

#include <cstdint>
#include <optional>

#include "job/job.h"
#include "ps/lease_counters.h"
#include "runtime/plan.h"
#include "schema/message.h"

namespace downpour {

class ConsistencyPolicy {
 public:
  explicit ConsistencyPolicy(const TrainingSpec& training);

  // kNone, kTooStale or kTooEarly. `staleness`: nothing where it is unknown, which is beyond any bound.
  SliceRefusal RefusalOf(LeaseId lease, std::optional<uint64_t> staleness, const LeaseCounters& counters,
                         const Plan& plan) const;

  // Whether gradients are summed until their group is complete.
  bool gathers() const { return gathers_; }

 private:
  std::optional<uint64_t> max_staleness_;
  bool gathers_;
};

}  // namespace downpour
