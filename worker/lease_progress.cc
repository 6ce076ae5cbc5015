#include "worker/lease_progress.h"

#include <glog/logging.h>

#include <algorithm>

namespace downpour {

LeaseProgress::LeaseProgress(Step steps, const std::vector<SliceEpoch>& epochs) : steps_(steps) {
  slices_.reserve(epochs.size());
  for (const SliceEpoch epoch : epochs) slices_.push_back({.epoch = epoch});
  if (!epochs.empty()) computed_[0] = epochs.size();
}

void LeaseProgress::ComputedTo(Slice& slice, Step step) {
  if (slice.computed_to == step) return;
  const auto before = computed_.find(slice.computed_to);
  if (--before->second == 0) computed_.erase(before);
  ++computed_[step];
  slice.computed_to = step;
}

void LeaseProgress::ForgetAnswer(Slice& slice) {
  known_ -= slice.known;
  // core 5: evidence is of a slice's current epoch alone.
  done_ -= slice.acked == steps_;
  slice.known = false;
  slice.consumed = 0;
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

LeaseProgress::ReplyEffect LeaseProgress::OnReply(SliceId slice, SliceEpoch epoch, Step consumed, Step acked) {
  Slice& s = slices_[ToNumber(slice)];
  // core 4: an answer of another epoch tells nothing of this one. The other two no honest ps sends.
  if (epoch != s.epoch || consumed > steps_ || acked > consumed) return ReplyEffect::kIgnored;
  const bool first = !s.known;
  known_ += first;
  s.known = true;
  // Within an epoch a slice only moves on: an answer that says less was overtaken.
  s.consumed = std::max(s.consumed, consumed);
  // A6: only `acked` acknowledges. What is merely consumed stays kept.
  if (acked > s.acked) {
    s.acked = acked;
    done_ += acked == steps_;
  }
  s.retained_from = std::max(s.retained_from, s.acked);
  // The new place is behind what is kept: those steps are computed again, for this slice alone.
  if (s.consumed < s.retained_from) {
    s.retained_from = s.consumed;
    ComputedTo(s, s.consumed);
  } else {
    ComputedTo(s, std::max(s.computed_to, s.consumed));
  }
  return first ? ReplyEffect::kFirstInEpoch : ReplyEffect::kProgress;
}

void LeaseProgress::GiveUp(SliceId slice) {
  Slice& s = slices_[ToNumber(slice)];
  if (s.known) ComputedTo(s, std::max(s.consumed, s.retained_from));
}

Step LeaseProgress::Next() const {
  // The slowest slice decides; the others do not take the step a second time (Lacks).
  const Step computed_to = computed_.empty() ? steps_ : computed_.begin()->first;
  return computed_to == steps_ ? 0 : computed_to + 1;
}

void LeaseProgress::MarkComputed(SliceId slice, Step step) {
  CHECK(Lacks(slice, step)) << "slice " << ToNumber(slice) << " step " << step;
  ComputedTo(slices_[ToNumber(slice)], step);
}

}  // namespace downpour
