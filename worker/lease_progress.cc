#include "worker/lease_progress.h"

#include <glog/logging.h>

#include <algorithm>

namespace downpour {

LeaseProgress::LeaseProgress(Step steps, const std::vector<SliceEpoch>& epochs) : steps_(steps) {
  slices_.reserve(epochs.size());
  for (const SliceEpoch epoch : epochs) slices_.push_back({.epoch = epoch});
}

void LeaseProgress::ForgetAnswer(Slice& slice) {
  known_ -= slice.known;
  // core 5: evidence is of a slice's current epoch alone.
  done_ -= slice.acked == steps_;
  slice.known = false;
  slice.applied = 0;
  slice.acked = 0;
}

void LeaseProgress::Renew(SliceId slice, SliceEpoch epoch) {
  Slice& s = slices_[ToNumber(slice)];
  // A Placement says nothing new of a slice that stayed where it was.
  if (s.epoch == epoch) return;
  ForgetAnswer(s);
  s.epoch = epoch;
}

void LeaseProgress::ForgetAnswers() {
  for (Slice& slice : slices_) ForgetAnswer(slice);
}

LeaseProgress::Heard LeaseProgress::Hear(SliceId slice, SliceEpoch epoch, Step applied, Step acked) {
  Slice& s = slices_[ToNumber(slice)];
  // core 4: an answer of another epoch tells nothing of this one. The other two no honest ps sends.
  if (epoch != s.epoch || applied > steps_ || acked > applied) return Heard::kIgnored;
  const bool first = !s.known;
  known_ += first;
  s.known = true;
  // Within an epoch a slice only moves on: an answer that says less was overtaken.
  s.applied = std::max(s.applied, applied);
  // A6: only `acked` acknowledges. What is merely applied stays kept.
  if (acked > s.acked) {
    s.acked = acked;
    done_ += acked == steps_;
  }
  s.kept_from = std::max(s.kept_from, s.acked);
  // The new place is behind what is kept: those steps are computed again, for this slice alone.
  if (s.applied < s.kept_from) {
    s.kept_from = s.covered = s.applied;
  } else {
    s.covered = std::max(s.covered, s.applied);
  }
  return first ? Heard::kFirst : Heard::kNews;
}

void LeaseProgress::GiveUp(SliceId slice) {
  Slice& s = slices_[ToNumber(slice)];
  if (s.known) s.covered = std::max(s.applied, s.kept_from);
}

Step LeaseProgress::Next() const {
  // The slowest slice decides; the others do not take the step a second time (Lacks).
  Step covered = steps_;
  for (const Slice& slice : slices_) covered = std::min(covered, slice.covered);
  return covered == steps_ ? 0 : covered + 1;
}

void LeaseProgress::Keep(SliceId slice, Step step) {
  CHECK(Lacks(slice, step)) << "slice " << ToNumber(slice) << " step " << step;
  slices_[ToNumber(slice)].covered = step;
}

}  // namespace downpour
