#include "chief/known/lease_ledger.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

absl::Status OutOfPlan(LeaseId lease) {
  return absl::InvalidArgumentError(absl::StrCat("lease ", ToNumber(lease), " is not of this plan"));
}

}  // namespace

void LeaseLedger::Open(const Plan& plan, const IntervalSet& finished_everywhere, std::optional<size_t> most_copies) {
  plan_ = plan;
  most_copies_ = most_copies;
  goal_ = plan.total_leases();
  IntervalSet all;
  all.InsertRange(0, plan.total_leases());
  committed_ = all.Intersect(finished_everywhere);
  examples_committed_ = plan.ExamplesIn(committed_);
  steps_committed_ = plan.StepsIn(committed_);
  batches_committed_ = plan.BatchesIn(committed_);
  if (!committed_.empty()) NoteBegun(committed_.Intervals().back().end);
}

void LeaseLedger::EndAfter(uint64_t epochs) {
  if (epochs == 0) return;
  goal_ = std::min(plan_.total_leases(), plan_.EpochBegin(epochs));
  IntervalSet all;
  all.InsertRange(0, goal_);
  Restrict(all);  // a worker that the chief did not know of may have finished others
}

uint64_t LeaseLedger::EpochsBegun() const { return begun_ == 0 ? 0 : plan_.EpochOf(LeaseId{begun_ - 1}) + 1; }

void LeaseLedger::NoteBegun(uint64_t leases) { begun_ = std::max(begun_, std::min(leases, plan_.total_leases())); }

void LeaseLedger::Commit(LeaseId lease) {
  NoteBegun(ToNumber(lease) + 1);
  committed_.Insert(ToNumber(lease));
  examples_committed_ += plan_.ExamplesOf(lease);
  steps_committed_ += plan_.StepsOf(lease);
  batches_committed_ += plan_.BatchesOf(lease);
  ++commits_;
  for (std::map<LeaseId, Incarnation>* of : {&holders_, &copies_}) {
    const auto holder = of->find(lease);
    if (holder == of->end()) continue;
    held_[holder->second].erase(lease);
    of->erase(holder);
  }
}

uint64_t LeaseLedger::Reach() const { return std::min(goal_, plan_.ReachFrom(committed_.FirstMissing(0))); }

bool LeaseLedger::IsOpen(LeaseId lease) const {
  return !committed_.Contains(ToNumber(lease)) && !holders_.contains(lease);
}

void LeaseLedger::Hold(Incarnation worker, LeaseId lease) {
  NoteBegun(ToNumber(lease) + 1);
  holders_[lease] = worker;
  held_[worker].insert(lease);
}

// Who has a copy goes on with it; else it is open again.
void LeaseLedger::Drop(Incarnation worker, LeaseId lease) {
  if (const auto copy = copies_.find(lease); copy != copies_.end()) {
    if (copy->second != worker) holders_[lease] = copy->second;
    copies_.erase(copy);
    return;
  }
  holders_.erase(lease);
  no_open_before_ = std::min(no_open_before_, ToNumber(lease));
}

std::optional<LeaseId> LeaseLedger::FirstOpen() {
  no_open_before_ = committed_.FirstMissing(no_open_before_);
  while (holders_.contains(LeaseId{no_open_before_})) no_open_before_ = committed_.FirstMissing(no_open_before_ + 1);
  const LeaseId lease{no_open_before_};
  return InReach(lease) ? std::optional(lease) : std::nullopt;
}

uint64_t LeaseLedger::EndedBy(Incarnation worker) const {
  const auto found = ended_.find(worker);
  return found == ended_.end() ? 0 : found->second;
}

// The slowest worker's, of those within reach that one other worker holds. Of several that it holds in groups the first
// one, for which the others wait; without groups the last one, which it has not begun. Without groups only where it has
// committed less than half as many: then the waiting one may well end it first, and equal workers copy nothing. One
// commit tells nothing of who is slower.
std::optional<LeaseId> LeaseLedger::ToCopyFor(Incarnation waiting) const {
  std::optional<LeaseId> slowest;
  if (most_copies_ && copies_.size() >= *most_copies_) return slowest;
  const uint64_t own = EndedBy(waiting);
  if (!most_copies_ && own < 2) return slowest;
  uint64_t most = most_copies_ ? std::numeric_limits<uint64_t>::max() : (own - 1) / 2;
  for (const auto& [lease, holder] : holders_) {
    if (holder == waiting || copies_.contains(lease) || !InReach(lease)) continue;
    if (EndedBy(holder) > most || (most_copies_ && slowest && EndedBy(holder) == most)) continue;
    slowest = lease;
    most = EndedBy(holder);
  }
  return slowest;
}

absl::StatusOr<std::vector<LeaseId>> LeaseLedger::Ask(Incarnation worker, absl::Span<const LeaseId> holding,
                                                      uint32_t wanted) {
  const std::set<LeaseId> known(holding.begin(), holding.end());
  for (const LeaseId lease : known) {
    if (!plan_.Contains(lease)) return OutOfPlan(lease);
  }
  std::set<LeaseId>& held = held_[worker];
  std::vector<LeaseId> lost;
  std::set_difference(held.begin(), held.end(), known.begin(), known.end(), std::back_inserter(lost));
  // An old grant that came late, of a lease that was re-opened meanwhile, may have taken the room of a newer one.
  // One out of reach was given back: a slice of it had gone back to an older state.
  size_t retained = 0;
  for (const LeaseId lease : lost) {
    if (retained < wanted && InReach(lease)) {
      lost[retained++] = lease;
    } else {
      held.erase(lease);
      Drop(worker, lease);
    }
  }
  lost.resize(retained);
  for (const LeaseId lease : known) {
    if (IsOpen(lease) && held.size() < kMaxHeld) Hold(worker, lease);
  }
  const size_t room = kMaxHeld - std::min(kMaxHeld, held.size());
  demand_.erase(worker);
  if (const size_t demand = std::min(room, wanted - lost.size()); demand > 0) demand_[worker] = demand;
  return lost;
}

std::vector<LeaseLedger::Granted> LeaseLedger::Distribute() {
  std::vector<Granted> granted;
  while (!demand_.empty()) {
    const std::optional<LeaseId> lease = FirstOpen();
    if (!lease) break;
    auto next = demand_.upper_bound(last_served_);
    if (next == demand_.end()) next = demand_.begin();
    last_served_ = next->first;
    Hold(last_served_, *lease);
    granted.push_back({last_served_, *lease});
    if (--next->second == 0) demand_.erase(next);
  }
  for (auto waiting = demand_.begin(); waiting != demand_.end();) {
    const auto at = waiting++;
    const std::optional<LeaseId> lease = ToCopyFor(at->first);
    if (!lease) continue;
    copies_[*lease] = at->first;
    held_[at->first].insert(*lease);
    granted.push_back({at->first, *lease});
    if (--at->second == 0) demand_.erase(at);
  }
  return granted;
}

absl::Status LeaseLedger::CheckEvidence(const LeaseDone& done, size_t slices) const {
  if (!plan_.Contains(done.lease)) return OutOfPlan(done.lease);
  std::vector<bool> seen(slices);
  for (const LeaseDone::Evidence& evidence : done.evidence) {
    const uint32_t slice = ToNumber(evidence.slice);
    if (slice >= slices) return absl::InvalidArgumentError(absl::StrCat("evidence of slice ", slice, ", unknown here"));
    if (seen[slice]) return absl::InvalidArgumentError(absl::StrCat("evidence of slice ", slice, " given twice"));
    seen[slice] = true;
  }
  if (done.evidence.size() != slices) {
    return absl::InvalidArgumentError(
        absl::StrCat("evidence of ", done.evidence.size(), " slices instead of ", slices));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> LeaseLedger::Decide(const LeaseDone& done, absl::Span<const SliceEpoch> current) {
  if (absl::Status status = CheckEvidence(done, current.size()); !status.ok()) return status;
  if (committed_.Contains(ToNumber(done.lease)) || ToNumber(done.lease) >= goal_) return true;
  const bool is_current = std::all_of(done.evidence.begin(), done.evidence.end(), [&](const auto& evidence) {
    return evidence.epoch == current[ToNumber(evidence.slice)];
  });
  if (!is_current) return false;
  if (held_.contains(done.from)) ++ended_[done.from];
  Commit(done.lease);
  return true;
}

std::vector<LeaseId> LeaseLedger::Release(Incarnation worker) {
  demand_.erase(worker);
  std::vector<LeaseId> released = HeldBy(worker);
  held_.erase(worker);
  ended_.erase(worker);
  for (const LeaseId lease : released) Drop(worker, lease);
  std::erase_if(released, [this](LeaseId lease) { return holders_.contains(lease); });
  return released;
}

IntervalSet LeaseLedger::Restrict(const IntervalSet& finished) {
  const IntervalSet lacking = committed_.Except(finished);
  committed_ = committed_.Intersect(finished);
  examples_committed_ -= plan_.ExamplesIn(lacking);
  steps_committed_ -= plan_.StepsIn(lacking);
  batches_committed_ -= plan_.BatchesIn(lacking);
  if (!lacking.empty()) no_open_before_ = std::min(no_open_before_, lacking.Intervals().front().begin);
  return lacking;
}

uint64_t LeaseLedger::EpochsCommitted() const {
  const auto runs = committed_.Intervals();
  if (runs.empty() || runs.front().begin != 0) return 0;
  return plan_.EpochOf(LeaseId{runs.front().end});
}

std::optional<LeaseLedger::Granted> LeaseLedger::HeldUpBy() const {
  if (holders_.empty() || Reach() == goal_) return std::nullopt;
  const auto& [lease, holder] = *holders_.begin();
  return Granted{holder, lease};
}

std::vector<LeaseId> LeaseLedger::HeldBy(Incarnation worker) const {
  const auto held = held_.find(worker);
  return held == held_.end() ? std::vector<LeaseId>() : std::vector<LeaseId>(held->second.begin(), held->second.end());
}

}  // namespace downpour
