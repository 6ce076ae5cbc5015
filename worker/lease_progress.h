// How far one lease is on every slice: what to compute and push next, and whether it is done. Numbers only.
//
//   if (Step step = progress.Next(); step != 0) ...compute it...
//   if (progress.Lacks(slice, step)) { ...keep and push its gradient...; progress.MarkComputed(slice, step); }
//   progress.OnReply(slice, epoch, consumed, acked);   // each answer, late and doubled ones too
//
// Order: for each slice, gradients of the steps (retained_from, computed_to] are kept; those up to retained_from are
//   acknowledged. Within an epoch a slice only moves on, so an answer that says less than one before is late and
//   changes nothing. The first answer in a new epoch may point behind what is still kept: then the slice's computation
//   goes back to it.
// Cost: ForgetAnswers is linear in slices, the rest logarithmic in the steps at which slices are: mostly one or two.
// Source: schema/PROTOCOL.md, conversation 6.
// Tests: tests/unit/worker/lease_progress_test.cc.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "schema/ids.h"

namespace downpour {

class LeaseProgress {
 public:
  // `epochs`: of every slice of the grid. All of them are still to be asked.
  LeaseProgress(Step steps, const std::vector<SliceEpoch>& epochs);

  Step steps() const { return steps_; }

  // A new epoch of the slice: what it acknowledged counts no longer, and it must be asked.
  void Renew(SliceId slice, SliceEpoch epoch);
  // The same for all slices, in the epochs they are in.
  void ForgetAnswers();

  enum class ReplyEffect {
    kIgnored,  // of another epoch, or impossible
    kProgress,
    kFirstInEpoch,  // the first answer in this epoch
  };
  ReplyEffect OnReply(SliceId slice, SliceEpoch epoch, Step consumed, Step acked);

  bool Known(SliceId slice) const { return at(slice).known; }
  bool AllKnown() const { return known_ == slices_.size(); }
  // The lowest step whose gradient some slice lacks; 0 if none does.
  Step Next() const;
  bool Lacks(SliceId slice, Step step) const { return at(slice).computed_to + 1 == step; }
  void MarkComputed(SliceId slice, Step step);  // CHECKs Lacks
  // What is kept for the slice, and not consumed there, will not be taken: those steps are computed again.
  void GiveUp(SliceId slice);
  Step retained_from(SliceId slice) const { return at(slice).retained_from; }
  Step computed_to(SliceId slice) const { return at(slice).computed_to; }
  // Every slice's current epoch has acknowledged the last step.
  bool Done() const { return done_ == slices_.size(); }
  SliceEpoch epoch(SliceId slice) const { return at(slice).epoch; }

 private:
  // Once known: acked <= retained_from <= consumed <= computed_to <= steps. A new epoch takes back known, consumed and
  // acked; what is kept stays, since the new place may still take it.
  struct Slice {
    SliceEpoch epoch;        // answers of any other epoch are ignored (core 4)
    bool known = false;      // it has answered in that epoch; before, what it lacks is not known (A2)
    Step consumed = 0;       // the most that its answers said: steers, promises nothing (core 3)
    Step acked = 0;          // promised in that epoch; only rises there (core 3, A6)
    Step retained_from = 0;  // gradients up to here are dropped
    Step computed_to = 0;    // gradients up to here are kept, or consumed there already
  };
  const Slice& at(SliceId slice) const { return slices_[ToNumber(slice)]; }
  void ForgetAnswer(Slice& slice);
  void ComputedTo(Slice& slice, Step step);

  Step steps_;
  std::vector<Slice> slices_;        // by SliceId
  std::map<Step, size_t> computed_;  // how many slices are computed to that step and no further
  size_t known_ = 0;                 // slices that are known
  size_t done_ = 0;                  // slices that acknowledged the last step
};

}  // namespace downpour
