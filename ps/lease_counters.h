// Which pushes one slice has consumed, and the rule that makes each of them count exactly once.
//
//   if (counters.Classify(lease, step) == LeaseCounters::Verdict::kNext) counters.Consume(lease, step, steps);
//
// Order: steps of a lease are consumed one by one, from 1. Nothing is forgotten: a lease whose last step is consumed
//   moves into the finished set for ever, so a late duplicate finds it there.
// Bounds: what is open or finished out of order takes room in the slice's record, and a hostile worker could begin
//   every lease of the job. Of the first kAlwaysTaken leases that the slice lacks each is taken, whatever others did;
//   workers get the lowest open leases, so that is more than all of them together can hold. A lease beyond them is
//   begun only while there are fewer than kMostOutOfOrder: with an honest cluster that is one in flight when the slice
//   went back to an older state. Restore takes any record.
// Cost: linear in the open leases (as many as workers hold), without allocation on the way of a push.
// Source: schema/PROTOCOL.md, exactly once.
// Tests: tests/unit/ps/lease_counters_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/plan.h"
#include "schema/ids.h"
#include "schema/interval_set.h"
#include "schema/message.h"

namespace downpour {

class LeaseCounters {
 public:
  // As many as kMostTasks workers of kMostLeasesHeld each.
  static constexpr uint64_t kAlwaysTaken = 16384;
  // Open leases and intervals of finished ones, together.
  static constexpr size_t kMostOutOfOrder = 32768;

  LeaseCounters() = default;
  // As a record has them. Errors: INVALID_ARGUMENT for what the plan or the rule above rules out.
  static absl::StatusOr<LeaseCounters> Restore(IntervalSet finished, std::vector<LeaseCounter> open, const Plan& plan);

  enum class Verdict {
    kNext,       // consume it
    kDuplicate,  // was consumed before
    kGap,        // comes before its time
    kNoRoom,     // would be next; until leases before it are finished it cannot be begun
  };
  Verdict Classify(LeaseId lease, Step step) const;
  // CHECKs that the step is next. `steps`: how many the lease has.
  void Consume(LeaseId lease, Step step, Step steps);

  // The last step consumed, of `steps`.
  Step ConsumedTo(LeaseId lease, Step steps) const;
  // Pushes consumed in all, as the counters have it.
  uint64_t Sum(const Plan& plan) const;

  const IntervalSet& finished() const { return finished_; }
  const std::vector<LeaseCounter>& open() const { return open_; }  // ascending by lease

 private:
  const LeaseCounter* FindOpen(LeaseId lease) const;
  bool HasRoom(LeaseId lease) const;
  void Finish(LeaseId lease);

  IntervalSet finished_;                  // only grows (core 2)
  std::vector<LeaseCounter> open_;        // ascending; of each 1 <= consumed < its steps; none is in finished_
  uint64_t taken_before_ = kAlwaysTaken;  // below it exactly kAlwaysTaken leases are not finished
};

}  // namespace downpour
