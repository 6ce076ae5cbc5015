// The oracle workload: gradients that follow from their names alone, so that anyone can say what a slice must hold.
//
// Shapes: the gradient of (lease, step, slice) is elements(slice) floats, each a small integer hashed from (lease,
//   step, slice, index). Under SGD with learning rate 1 a slice's change is then a sum of integers: exact, whatever the
//   order.
// Of a bucket: some of its keys, and such numbers for each of their rows. Which keys there are in all follows from the
//   job, so that what a bucket shows of all of them says what it holds.
// A drawn share of the names has no gradient for a slice, or one that is not finite or makes the slice so; and one may
//   have a gradient of which whichever server applies it dies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"
#include "job/slice_grid.h"
#include "runtime/plan.h"
#include "runtime/row_frames.h"
#include "schema/ids.h"
#include "schema/interval_set.h"
#include "schema/payload.h"

namespace downpour {

struct OracleShares {
  double empty = 0;
  double not_finite = 0;
  bool poison = false;  // one push of the job, unless its gradient is of another kind
};

class Oracle {
 public:
  Oracle(const JobSpec& job, uint64_t train_examples, OracleShares shares);

  enum class Kind { kGradient, kEmpty, kNotFinite, kPoison };
  Kind KindOf(LeaseId lease, Step step, SliceId slice) const;
  // Whether it counts without effect, though there is a gradient.
  bool IsSkipped(LeaseId lease, Step step, SliceId slice) const {
    const Kind kind = KindOf(lease, step, slice);
    return kind == Kind::kNotFinite || kind == Kind::kPoison;
  }
  uint64_t Skips(uint64_t leases) const;  // of the first so many leases, once each
  // Empty, not finite or made so by any update, or integers between -3 and 3.
  Payload Gradient(LeaseId lease, Step step, SliceId slice) const;
  // Of a bucket: the keys of that gradient, as a worker's device finds them; empty as it is.
  Payload KeysOf(LeaseId lease, Step step, SliceId bucket) const;
  // Keys of a batch of an evaluation; empty where none falls into the bucket.
  Payload KeysOfBatch(uint64_t batch, SliceId bucket) const;
  // All keys that can ever fall into it.
  const RowKeys& AllKeys(SliceId bucket) const { return all_keys_[static_cast<size_t>(grid_.at(bucket).offset)]; }

  // What the slice begins with: as its ps makes it, or as the file of model.initializeFrom would have it.
  Payload Initial(SliceId slice) const;
  // Whether model.initializeFrom is a job folder, whose tables this job begins with too: a half of those that have any.
  bool begins_with_rows() const;
  // Of such a job: a bucket's record before any push.
  std::string InitialRecord(SliceId bucket) const;
  // Floats of a variable as they travel. A gradient's are exact as bfloat16, too.
  Payload OnWire(const Payload& floats) const;

  // What every slice's elements sum to once each step of `leases` took effect once.
  std::vector<int64_t> Sums(const IntervalSet& leases, SliceId slice) const;
  // Position-weighted: one lost and one doubled push do not cancel.
  static uint64_t Checksum(const std::vector<int64_t>& sums);

  const JobSpec& job() const { return job_; }
  const SliceGrid& grid() const { return grid_; }
  const Plan& plan() const { return plan_; }

 private:
  bool IsPoison(LeaseId lease, Step step, SliceId slice) const;
  int Element(uint64_t name, uint64_t index) const;
  RowKeys SomeKeys(uint64_t name, SliceId bucket) const;

  JobSpec job_;
  SliceGrid grid_;
  Plan plan_;
  OracleShares shares_;
  std::vector<RowKeys> all_keys_;  // by bucket
};

}  // namespace downpour
