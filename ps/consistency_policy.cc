#include "ps/consistency_policy.h"

namespace downpour {
namespace {

std::optional<uint64_t> MaxStaleness(const TrainingSpec& training) {
  if (training.consistency == Consistency::kSync) return 0;
  return training.max_staleness;
}

}  // namespace

ConsistencyPolicy::ConsistencyPolicy(const TrainingSpec& training)
    : max_staleness_(MaxStaleness(training)), gathers_(training.consistency == Consistency::kSync) {}

SliceRefusal ConsistencyPolicy::RefusalOf(LeaseId lease, std::optional<uint64_t> staleness,
                                          const LeaseCounters& counters, const Plan& plan) const {
  if (ToNumber(lease) >= plan.ReachFrom(counters.finished().FirstMissing(0))) return SliceRefusal::kTooEarly;
  // What was computed in another epoch may be of any age.
  if (max_staleness_ && (!staleness || *staleness > *max_staleness_)) return SliceRefusal::kTooStale;
  return SliceRefusal::kNone;
}

}  // namespace downpour
