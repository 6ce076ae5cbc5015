// The slices of one parameter server: what is assigned, installed and served.
//
//   shard.Assign(item);                              // fences off the older epoch at once
//   for (SliceId slice : shard.InstallNext(budget))  // those that begin with initial values
//   shard.Restore(restore);                          // those that begin with a checkpoint's record
//                                                    // those that go on with what is held are there at once
//   report.slices.push_back(shard.Report(slice));
//
// Order: a slice's epoch only rises. A new epoch drops what the older one held: a consistent pair of values and
//   counters comes in whole or not at all.
// Cost: Find is one index. InstallNext stays within a budget of bytes, so that it can be spread over steps.
// Errors: a record that does not fit is kept as the slice's report, and the chief chooses another source.
// Tests: tests/unit/ps/shard_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "job/slice_grid.h"
#include "ps/bucket_stream.h"
#include "ps/lease_counters.h"
#include "ps/table/bucket_rows.h"
#include "runtime/plan.h"
#include "schema/checkpoint_format.h"
#include "schema/message.h"
#include "tensor/apply_kernels.h"

namespace downpour {

// One slice's consistent pair. `consumed` counts the pushes one by one and must be what the counters add up to.
// core 1: all of it comes from one source, changes in one Step of the role, and travels in one record.
struct ServedSlice {
  SliceEpoch epoch;      // the fence: whatever names another one is refused (core 4)
  uint64_t version = 0;  // updates of its values, over all epochs
  uint64_t consumed = 0;
  uint64_t skipped = 0;          // of those consumed over all epochs: had no effect, though they held a gradient
  uint64_t usual_staleness = 0;  // of the pushes that changed it (ps/staleness_rule.h)
  LeaseCounters counters;        // which pushes the values hold
  Payload values;
  std::vector<Payload> slots;              // of the optimizer: as long as the values, each
  Magnitudes bounds = kUnknownMagnitudes;  // of values and slots
  Payload on_wire;  // the values rounded to bfloat16, since the first pull of this version that wanted them so
  std::shared_ptr<BucketRows> rows = {};  // of a bucket, in place of all from `values` on; copies share them

  Version CurrentVersion() const { return {epoch, version}; }
};

class Shard {
 public:
  // `secret`: of this process, and of no other: whoever chooses keys does not know where their rows lie.
  Shard(const JobSpec& job, SliceGrid grid, Plan plan, uint64_t secret);

  const SliceGrid& grid() const { return grid_; }
  const Plan& plan() const { return plan_; }

  // The same plan with other epochs behind those that are held.
  void Extend(const Plan& plan) { plan_ = plan; }

  // Null for what is not here, or not yet. As in all of this class, the slice is one of the grid: callers look.
  ServedSlice* Find(SliceId slice) { return places_[ToNumber(slice)].served.get(); }
  const ServedSlice* Find(SliceId slice) const { return places_[ToNumber(slice)].served.get(); }

  // False for an epoch older than the slice's; nothing changes for its own. What is held goes on in the new epoch if it
  // is to, else it is dropped.
  bool Assign(const Assign::Item& item);
  // Installs initial values until `budget` bytes are written, at least one slice if any waits; returns them.
  std::vector<SliceId> InstallNext(size_t budget);
  // False if the slice does not wait for a record in this epoch, or not for this piece of it. Otherwise there is
  // something to report: of a bucket also how many pieces are here.
  bool Restore(const RestoreSlice& record);

  // Whether there is something to report about the slice in its epoch.
  bool HasReport(SliceId slice) const;
  SliceReport::Item Report(SliceId slice) const;
  size_t AwaitingRecords() const;

  struct TableTotals {
    uint64_t rows = 0;  // that take memory
    uint64_t bytes = 0;
    uint64_t unborn = 0;  // pushes of keys for which there was no room
  };
  TableTotals Tables() const;

  // An own bug otherwise: pushes counted one by one against the counters.
  void CheckCounts(const ServedSlice& slice) const;
  void CheckAllCounts() const;

 private:
  struct Place {
    SliceEpoch epoch;                             // {0, 0}: never assigned
    SliceSource source{};                         // whence it is to get its state in that epoch
    std::string error = {};                       // why the record could not be installed
    std::unique_ptr<BucketStream> incoming = {};  // of a bucket, as is the next: its record, as far as it is here
    uint32_t pieces = 0;
    std::unique_ptr<ServedSlice> served = {};  // null until it has that state; then its epoch is this one's
  };
  absl::StatusOr<ServedSlice> FromRecord(SliceId slice, absl::Span<const Payload> blocks) const;
  absl::StatusOr<ServedSlice> FromState(SliceState state) const;
  absl::Status TakePiece(const RestoreSlice& record, Place& place);
  uint64_t CopyOf(SliceId slice) const;

  uint64_t seed_;
  size_t slot_count_;
  std::vector<TableSpec> tables_;
  uint64_t secret_;
  SliceGrid grid_;
  Plan plan_;
  std::vector<Place> places_;       // by slice
  std::deque<SliceId> to_install_;  // with initial values
};

SliceState StateOf(SliceId id, const ServedSlice& slice);

// The slice's values as they travel. Cost: a reference; in bfloat16 one pass over them for each version.
const Payload& OnWire(WireFormat wire, ServedSlice& slice);

}  // namespace downpour
