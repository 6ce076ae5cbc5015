// The reference state: what every slice must hold, kept from trace records alone and checked as they come.
//
//   reference.Record(record);                   // of any process, in the order in which things happened
//   reference.CheckSlice(shown, "ps-0");        // is what a ps holds what its records make?
//
// A lineage is one slice in one epoch: where it began (initial values, a checkpoint's record, or what the same ps held
//   in an earlier epoch) and every push it counted since. Its values are those pushes applied in that order.
//   A bucket's values are what it shows of all keys. Its rows are those of another bucket that had the same pushes from
//   the beginning: so nothing that a record lacks can come back.
// Findings: a step that is not the next one of its lease, an effect of a push that has none, a version that does not
//   count effects, an acknowledgement of what the lineage lacks, two lives in one epoch, a pair that is not consistent.
// Tests: tests/sim/reference_state_test.cc shows that each of these is noticed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/guarded_state.h"
#include "ps/staleness_rule.h"
#include "ps/table/bucket_rows.h"
#include "runtime/trace_record.h"
#include "schema/checkpoint_format.h"
#include "tests/sim/findings.h"
#include "tests/sim/oracle.h"

namespace downpour {

class ReferenceState {
 public:
  ReferenceState(const Oracle* oracle, Findings* findings) : oracle_(oracle), findings_(findings) {}

  // `computed_from`: of the gradient, if it is the record of a push that counts.
  void Record(const TraceRecord& record, const Version& computed_from = {});

  // Compares with the lineage of shown.slice and shown.epoch, bit for bit: version, counters, values, slots.
  void CheckSlice(const SliceState& shown, const std::string& where);
  // Compares with the snapshots that were handed out of that slice for that round.
  void CheckRecord(Round round, const SliceState& read, const std::string& where);
  // Of the values that the slice had at that version; none if it never was at it.
  std::optional<uint32_t> ChecksumAt(SliceId slice, Version version) const;

  // How far the lineage is with the lease: all its steps if finished; 0 if there is no such lineage.
  Step ConsumedTo(SliceId slice, SliceEpoch epoch, LeaseId lease) const;
  // What the lineage has finished; empty if there is no such lineage.
  IntervalSet Finished(SliceId slice, SliceEpoch epoch) const;
  // The lineage as it is by now; null: there is none, or CheckSlice has not seen what it began with.
  const SliceState* Now(SliceId slice, SliceEpoch epoch) const;
  // Which ps was given the slice in that epoch; kNone: none yet.
  Incarnation GivenTo(SliceId slice, SliceEpoch epoch) const;

  uint64_t pushes_counted() const { return pushes_counted_; }
  uint64_t duplicates() const { return duplicates_; }
  uint64_t skips() const { return skips_; }        // by whichever process, again after a loss too
  uint64_t restored() const { return restored_; }  // pairs that were found to be those of a checkpoint

  SliceState Born(SliceId slice) const;  // before any push
  // Of a bucket with these rows: the values that stand for them here.
  Payload Show(SliceId bucket, const BucketRows& rows) const { return rows.Gather(oracle_->AllKeys(bucket)); }
  Payload Show(SliceId bucket, GuardedState& state) const;
  // Whether a bucket at that version had these rows, which answer those keys.
  bool Showed(SliceId bucket, Version version, const Payload& keys, const Payload& rows) const;
  // Whether these rows answer those keys where a bucket has such values, as Show makes them.
  bool Answers(SliceId bucket, const Payload& values, const Payload& keys, const Payload& rows) const;

 private:
  using PushOf = std::pair<LeaseId, Step>;
  struct Lineage {
    Incarnation actor{};
    Round from_round = {};  // {0, 0}: initial values
    bool settled = false;   // false until CheckSlice has seen which of the round's snapshots it began with
    SliceState state;
    std::map<uint64_t, uint32_t> checksums;  // of the values as they travel, by version
    std::vector<PushOf> pushes = {};         // of a bucket, as are the next: all that it consumed
    std::shared_ptr<BucketRows> rows = {};
    std::map<uint64_t, Payload> shown = {};  // values by version
  };
  struct Snapshot {
    SliceState state;
    std::vector<PushOf> pushes;
  };

  void Install(const TraceRecord& record);
  void GoOn(const TraceRecord& record);
  void Consume(const TraceRecord& record, const Version& computed_from);
  void CheckMayCount(const TraceRecord& record, const Version& computed_from, const SliceState& state,
                     bool has_gradient);
  void Gather(const TraceRecord& record, SliceState& state) const;
  void Apply(const TraceRecord& record, const Version& computed_from, SliceState& state) const;
  void ApplyRows(const PushOf& push, SliceId bucket, bool effect, uint64_t done, uint64_t version,
                 BucketRows& rows) const;
  BucketRows Begun(SliceId bucket, uint32_t number) const;
  std::shared_ptr<BucketRows> Replay(SliceId bucket, const std::vector<PushOf>& pushes) const;
  void NoteValues(Lineage& lineage);
  uint64_t Done(const SliceState& state) const;
  void Update(const Payload& gradient, const Damping& damping, uint64_t done, SliceState& state) const;
  bool Gathers() const { return oracle_->job().training.consistency == Consistency::kSync; }
  void Settle(Lineage& lineage, const SliceState& shown, const std::string& where);
  Lineage* Owned(const TraceRecord& record);
  const Lineage* Find(SliceId slice, SliceEpoch epoch) const;
  uint32_t Checksum(const SliceState& state) const;
  void Add(const TraceRecord& record, const std::string& what);

  const Oracle* oracle_;
  Findings* findings_;
  std::map<std::pair<SliceId, SliceEpoch>, Lineage> lineages_;
  std::map<std::pair<Round, SliceId>, std::vector<Snapshot>> snapshots_;  // by round and slice
  uint64_t pushes_counted_ = 0;
  uint64_t duplicates_ = 0;
  uint64_t restored_ = 0;
  uint64_t skips_ = 0;
};

// Field by field, the epoch apart; empty if the pairs are equal, else what differs.
std::string Difference(const SliceState& expected, const SliceState& actual);

}  // namespace downpour
