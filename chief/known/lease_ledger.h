// The ledger of leases: committed, held by a worker, or open. A cache of what the slices' counters say.
//
//   ledger.Open(plan, committed);                  // from the slices' reports, and from nothing else
//   repeats = ledger.Ask(worker, holding, wanted);
//   for (const auto& [worker, lease] : ledger.Distribute()) ...grant...
//   ledger.Decide(done, epochs);                    // whoever says it: evidence decides
//
// Order: leases are granted lowest number first, within the plan's reach of what is committed, to waiting workers in
//   turn. A lease is never open and committed at once.
// Copies: where no lease is open within reach, a waiting worker is granted one that another holds: that of the worker
//   which has committed the fewest, and so is most likely the slowest. Whoever pushes first has its pushes counted. In
//   groups, as many leases as the job has backup workers have a copy (Chen et al., "Revisiting Distributed Synchronous
//   SGD", 2016). Without groups that is so at the job's end, for leases of workers that have committed less than half
//   as many as the waiting one: else the job would wait for its slowest worker alone (Dean and Ghemawat, "MapReduce",
//   2004, section 3.6).
// Cost: Decide is linear in slices, Open and Restrict in intervals, a grant in the leases held, the rest in those it
//   names; memory in intervals and in leases held.
// Errors: INVALID_ARGUMENT for what no honest worker sends; nothing is changed then.
// Source: protocol rules core 1, core 5 and A2, A3 (schema/PROTOCOL.md).
// Tests: tests/unit/chief/lease_ledger_test.cc, lease_ledger_groups_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/options.h"
#include "runtime/plan.h"
#include "schema/interval_set.h"
#include "schema/message.h"

namespace downpour {

class LeaseLedger {
 public:
  static constexpr size_t kMaxHeld = kMostLeasesHeld;

  // `most_copies`: of leases in groups that two workers may hold at once; nothing: the job has no groups.
  void Open(const Plan& plan, const IntervalSet& finished_everywhere, std::optional<size_t> most_copies = {});

  // Notes what the worker has and could take; leases of `holding` that are open become its own again: they were
  // committed and re-opened before it heard of either. Returns the leases that it was granted and does not know of:
  // their grants were lost. Those for which it has no room any more are open again, and those out of reach.
  absl::StatusOr<std::vector<LeaseId>> Ask(Incarnation worker, absl::Span<const LeaseId> holding, uint32_t wanted);

  struct Granted {
    Incarnation worker{};
    LeaseId lease{};
  };
  std::vector<Granted> Distribute();

  // True: the lease is committed (now or before). False: some evidence is of an epoch that is over.
  absl::StatusOr<bool> Decide(const LeaseDone& done, absl::Span<const SliceEpoch> current);

  // The job ends with so many epochs, if its plan has more; 0: with all of them. Leases beyond them are not granted.
  void EndAfter(uint64_t epochs);
  uint64_t goal() const { return goal_; }  // as many leases, the first ones, have to be committed
  // Those of which this chief granted or committed a lease, or some slice finished one, and those before. It may be
  // open again by now.
  uint64_t EpochsBegun() const;
  void NoteBegun(uint64_t leases);  // as many, the first ones

  // The worker is gone: what it alone held is open again, and returned.
  std::vector<LeaseId> Release(Incarnation worker);

  // A slice turned out to have finished only these: what it lacks is open again, however it came to be committed.
  // Returns what was committed and is open now.
  IntervalSet Restrict(const IntervalSet& finished);

  bool is_open() const { return plan_.total_leases() > 0; }
  const IntervalSet& committed() const { return committed_; }
  bool AllCommitted() const { return committed_.CoversRange(0, goal_); }
  uint64_t EpochsCommitted() const;  // whole epochs from the first on
  uint64_t examples_committed() const { return examples_committed_; }
  uint64_t steps_committed() const { return steps_committed_; }
  uint64_t batches_committed() const { return batches_committed_; }
  uint64_t commits() const { return commits_; }  // leases committed since Open; one that was opened again counts again
  const std::map<LeaseId, Incarnation>& holders() const { return holders_; }
  std::vector<LeaseId> HeldBy(Incarnation worker) const;
  bool Wants(Incarnation worker) const { return demand_.contains(worker); }
  // While some leases are out of reach, what they wait for: the lowest one that is held and not committed.
  std::optional<Granted> HeldUpBy() const;
  const Plan& plan() const { return plan_; }

 private:
  absl::Status CheckEvidence(const LeaseDone& done, size_t slices) const;
  void Commit(LeaseId lease);
  bool IsOpen(LeaseId lease) const;
  uint64_t Reach() const;  // leases before it may be granted
  bool InReach(LeaseId lease) const { return ToNumber(lease) < Reach(); }
  std::optional<LeaseId> FirstOpen();
  uint64_t EndedBy(Incarnation worker) const;
  std::optional<LeaseId> ToCopyFor(Incarnation waiting) const;
  void Hold(Incarnation worker, LeaseId lease);
  void Drop(Incarnation worker, LeaseId lease);

  Plan plan_;
  uint64_t goal_ = 0;
  uint64_t begun_ = 0;
  IntervalSet committed_;
  uint64_t examples_committed_ = 0;
  uint64_t steps_committed_ = 0;
  uint64_t batches_committed_ = 0;
  uint64_t commits_ = 0;
  std::map<LeaseId, Incarnation> holders_;
  std::optional<size_t> most_copies_;
  std::map<LeaseId, Incarnation> copies_;  // who else holds a lease that is held
  std::map<Incarnation, uint64_t> ended_;  // how many leases each of those in held_ committed
  std::map<Incarnation, std::set<LeaseId>> held_;
  uint64_t no_open_before_ = 0;
  std::map<Incarnation, uint64_t> demand_;  // how many more each could take; at least 1
  Incarnation last_served_ = Incarnation::kNone;
};

}  // namespace downpour
