// Gradients of one lease that are kept until their slices acknowledge them.
//
//   in_flight.Add(step, slice, gradient, version).state = State::kReady;
//   in_flight.RetainOnly(slice, retained_from, computed_to, [](Step, const RetainedGradient&) {...});   // drops others
//
// Cost: one array of slices per step that is on its way; there are few (WorkerOptions::steps_in_flight).
// Tests: tests/unit/worker/in_flight_test.cc.
#pragma once

#include <glog/logging.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/world_time.h"
#include "schema/ids.h"
#include "schema/payload.h"

namespace downpour {

class InFlight {
 public:
  enum class State : uint8_t {
    kNone,     // no gradient is kept
    kBlocked,  // not to be sent before `at`, or before its slice has answered in its epoch
    kReady,    // to be sent
    kSent,     // at `at`, and unanswered since
  };
  struct RetainedGradient {
    Payload gradient;  // empty for an empty push
    Version computed_from;
    State state = State::kNone;
    bool sent = false;    // once or more
    bool resent = false;  // an answer may be one to an earlier copy
    Time at{};
  };
  struct StepEntry {
    Step step = 0;
    size_t retained = 0;
    std::vector<RetainedGradient> slices;  // by SliceId
  };

  explicit InFlight(size_t slices) : slices_(slices) {}

  // Steps of which anything is kept, ascending.
  std::vector<StepEntry>& steps() { return steps_; }
  // CHECKs that it is kept.
  RetainedGradient& at(Step step, SliceId slice) {
    const auto entry = Find(step);
    CHECK(entry != steps_.end() && entry->step == step) << "nothing is kept of step " << step;
    RetainedGradient& retained = entry->slices[ToNumber(slice)];
    CHECK(retained.state != State::kNone) << "nothing is kept of step " << step << ", slice " << ToNumber(slice);
    return retained;
  }
  size_t step_count() const { return steps_.size(); }

  // Blocked at first.
  RetainedGradient& Add(Step step, SliceId slice, Payload gradient, Version computed_from) {
    auto entry = Find(step);
    if (entry == steps_.end() || entry->step != step) {
      entry = steps_.insert(entry, StepEntry{step, 0, std::vector<RetainedGradient>(slices_)});
    }
    ++entry->retained;
    return entry->slices[ToNumber(slice)] = RetainedGradient{
               .gradient = std::move(gradient), .computed_from = computed_from, .state = State::kBlocked};
  }

  // Drops the slice's gradients outside of (from, to], calling dropped(step, kept) before.
  template <typename Dropped>
  void RetainOnly(SliceId slice, Step from, Step to, const Dropped& dropped) {
    for (StepEntry& entry : steps_) {
      RetainedGradient& retained = entry.slices[ToNumber(slice)];
      if (retained.state == State::kNone || (entry.step > from && entry.step <= to)) continue;
      dropped(entry.step, retained);
      retained = RetainedGradient();
      --entry.retained;
    }
    std::erase_if(steps_, [](const StepEntry& entry) { return entry.retained == 0; });
  }

  // Calls visit(step, kept) for each of the slice's gradients.
  template <typename Visit>
  void ForEach(SliceId slice, const Visit& visit) {
    for (StepEntry& entry : steps_) {
      RetainedGradient& retained = entry.slices[ToNumber(slice)];
      if (retained.state != State::kNone) visit(entry.step, retained);
    }
  }

 private:
  std::vector<StepEntry>::iterator Find(Step step) {  // or the first one after it
    return std::lower_bound(steps_.begin(), steps_.end(), step,
                            [](const StepEntry& entry, Step wanted) { return entry.step < wanted; });
  }

  size_t slices_;
  std::vector<StepEntry> steps_;
};

}  // namespace downpour
