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

#include "absl/status/status.h"
#include "job/job.h"
#include "job/slice_grid.h"
#include "ps/guarded_state.h"
#include "runtime/plan.h"
#include "schema/checkpoint_format.h"
#include "schema/message.h"

namespace downpour {

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
  // something to report: how many pieces are here, as long as others are to come.
  bool Restore(const RestoreSlice& record);

  // Whether there is something to report about the slice in its epoch.
  bool HasReport(SliceId slice) const;
  SliceReport::Item Report(SliceId slice) const;
  size_t AwaitingRecords() const;

  TableTotals Tables() const;

  // An own bug otherwise: pushes counted one by one against the counters.
  void CheckCounts(const ServedSlice& slice) const;
  void CheckAllCounts() const;

 private:
  struct Place {
    SliceEpoch epoch;                               // {0, 0}: never assigned
    SliceSource source{};                           // whence it is to get its state in that epoch
    std::string error = {};                         // why the record could not be installed
    std::unique_ptr<IncomingRecord> incoming = {};  // as far as it is here
    uint32_t pieces = 0;                            // of it
    std::unique_ptr<ServedSlice> served = {};       // null until it has that state; then its epoch is this one's
  };
  absl::Status TakePiece(const RestoreSlice& record, Place& place);
  uint64_t CopyOf(SliceId slice) const;

  JobSpec job_;  // by which states begin
  uint64_t secret_;
  SliceGrid grid_;
  Plan plan_;
  std::vector<Place> places_;       // by slice
  std::deque<SliceId> to_install_;  // with initial values
};

// As its record has it, but for the parts that follow.
SliceState StateOf(SliceId id, const ServedSlice& slice);

}  // namespace downpour
