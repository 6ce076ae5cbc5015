#include "ps/lease_counters.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "job/job_reader.h"
#include "runtime/options.h"
#include "schema/codec.h"

namespace downpour {
namespace {

// A record's header holds what may be open or finished out of order: docs/CHECKPOINT_FORMAT.md has the bytes of each.
constexpr uint64_t kMostHeaderBytes = 12 * LeaseCounters::kAlwaysTaken + 16 * (LeaseCounters::kAlwaysTaken + 1) +
                                      16 * LeaseCounters::kMostOutOfOrder + 64;
static_assert(kMostHeaderBytes <= kMaxFrameBytes);
static_assert(LeaseCounters::kAlwaysTaken >= kMostTasks * kMostLeasesHeld);

bool Before(const LeaseCounter& counter, LeaseId lease) { return counter.lease < lease; }

}  // namespace

absl::StatusOr<LeaseCounters> LeaseCounters::Restore(IntervalSet finished, std::vector<LeaseCounter> open,
                                                     const Plan& plan) {
  for (const IntervalSet::Interval& interval : finished.Intervals()) {
    if (interval.end > plan.total_leases()) {
      return absl::InvalidArgumentError(
          absl::StrCat("finished leases up to ", interval.end - 1, ", but the job has ", plan.total_leases()));
    }
  }
  for (size_t i = 0; i < open.size(); ++i) {
    const auto [lease, consumed] = open[i];
    const bool ascending = i == 0 || open[i - 1].lease < lease;
    if (!ascending || !plan.Contains(lease) || finished.Contains(ToNumber(lease)) || consumed < 1 ||
        consumed >= plan.StepsOf(lease)) {
      return absl::InvalidArgumentError(
          absl::StrCat("lease ", ToNumber(lease), " at step ", consumed, " cannot be open"));
    }
  }
  LeaseCounters counters;
  for (const IntervalSet::Interval& interval : finished.Intervals()) {
    if (interval.begin >= counters.taken_before_) break;
    counters.taken_before_ += interval.end - interval.begin;
  }
  counters.finished_ = std::move(finished);
  counters.open_ = std::move(open);
  return counters;
}

const LeaseCounter* LeaseCounters::FindOpen(LeaseId lease) const {
  const auto at = std::lower_bound(open_.begin(), open_.end(), lease, Before);
  return at != open_.end() && at->lease == lease ? &*at : nullptr;
}

LeaseCounters::Verdict LeaseCounters::Classify(LeaseId lease, Step step) const {
  const LeaseCounter* open = FindOpen(lease);
  // A1: a lease that was finished is never begun again, however late the copy.
  if (open == nullptr && finished_.Contains(ToNumber(lease))) return Verdict::kDuplicate;
  const Step consumed = open == nullptr ? 0 : open->consumed;
  if (step <= consumed) return Verdict::kDuplicate;
  // In order: ConsumedTo() alone then says which steps are in the values.
  if (step != consumed + 1) return Verdict::kGap;
  return open != nullptr || HasRoom(lease) ? Verdict::kNext : Verdict::kNoRoom;
}

// Of a lease that is to be begun: one that is open keeps its room until it is finished.
bool LeaseCounters::HasRoom(LeaseId lease) const {
  return ToNumber(lease) < taken_before_ || open_.size() + finished_.IntervalCount() < kMostOutOfOrder;
}

// One of the leases below taken_before_ is lacking no more: the next one that is lacking takes its place.
void LeaseCounters::Finish(LeaseId lease) {
  finished_.Insert(ToNumber(lease));
  if (ToNumber(lease) < taken_before_) taken_before_ = finished_.FirstMissing(taken_before_) + 1;
}

void LeaseCounters::Consume(LeaseId lease, Step step, Step steps) {
  CHECK(Classify(lease, step) == Verdict::kNext) << "lease " << ToNumber(lease) << " step " << step;
  const auto at = std::lower_bound(open_.begin(), open_.end(), lease, Before);
  const bool is_open = at != open_.end() && at->lease == lease;
  if (step == steps) {
    // core 2: a finished lease moves into the set, and is never forgotten.
    if (is_open) open_.erase(at);
    Finish(lease);
  } else if (is_open) {
    at->consumed = step;
  } else {
    open_.insert(at, {lease, step});
  }
}

Step LeaseCounters::ConsumedTo(LeaseId lease, Step steps) const {
  if (const LeaseCounter* open = FindOpen(lease)) return open->consumed;
  return finished_.Contains(ToNumber(lease)) ? steps : 0;
}

uint64_t LeaseCounters::Sum(const Plan& plan) const {
  uint64_t sum = 0;
  for (const auto [begin, end] : finished_.Intervals()) sum += plan.StepsBefore(end) - plan.StepsBefore(begin);
  for (const LeaseCounter& counter : open_) sum += counter.consumed;
  return sum;
}

}  // namespace downpour
