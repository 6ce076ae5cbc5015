// Gradients of one lease that are kept until their slices acknowledge them.
//
//   in_flight.Add(step, slice, gradient, version, State::kReady);
//   in_flight.RetainOnly(slice, retained_from, computed_to, [](Step, const RetainedGradient&) {...});   // drops others
//
// Cost: one array of slices per step that is on its way; there are few (WorkerOptions::steps_in_flight).
// Tests: tests/unit/worker/in_flight_test.cc.
#pragma once

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
    bool counted = false;  // its slice took it from this worker
    bool sent = false;     // once or more
    bool resent = false;   // an answer may be one to an earlier copy
    Time at{};
  };
  struct StepEntry {
    Step step = 0;
    size_t retained = 0;
    size_t ever_kept = 0;                  // more than there are slices where some were computed again
    size_t counted = 0;                    // of those that are kept no more
    std::vector<RetainedGradient> slices;  // by SliceId
  };
  // A step of which nothing is kept any more. It counted if each slice took it out of one computation.
  struct Concluded {
    Step step = 0;
    bool counted = false;
  };

  explicit InFlight(size_t slices) : slices_(slices) {}

  // Steps of which anything is kept, ascending.
  std::vector<StepEntry>& steps() { return steps_; }
  size_t step_count() const { return steps_.size(); }

  void Add(Step step, SliceId slice, Payload gradient, Version computed_from, State state) {
    auto entry =
        std::lower_bound(steps_.begin(), steps_.end(), step, [](const StepEntry& e, Step s) { return e.step < s; });
    if (entry == steps_.end() || entry->step != step) {
      entry = steps_.insert(entry, StepEntry{.step = step, .slices = std::vector<RetainedGradient>(slices_)});
    }
    entry->slices[ToNumber(slice)] =
        RetainedGradient{.gradient = std::move(gradient), .computed_from = computed_from, .state = state};
    ++entry->retained;
    ++entry->ever_kept;
  }

  // The slice says that it took the step now, out of what is kept.
  void Count(Step step, SliceId slice) {
    for (StepEntry& entry : steps_) {
      if (entry.step == step) entry.slices[ToNumber(slice)].counted = true;
    }
  }

  // Drops the slice's gradients outside of (from, to], calling dropped(step, kept) before.
  template <typename Dropped>
  void RetainOnly(SliceId slice, Step from, Step to, const Dropped& dropped) {
    for (StepEntry& entry : steps_) {
      RetainedGradient& retained = entry.slices[ToNumber(slice)];
      if (retained.state == State::kNone || (entry.step > from && entry.step <= to)) continue;
      dropped(entry.step, retained);
      entry.counted += retained.counted;
      retained = RetainedGradient();
      --entry.retained;
    }
    std::erase_if(steps_, [this](const StepEntry& entry) {
      if (entry.retained > 0) return false;
      concluded_.push_back({entry.step, entry.counted == slices_ && entry.ever_kept == slices_});
      return true;
    });
  }

  // Those since it was last asked.
  std::vector<Concluded> TakeConcluded() { return std::exchange(concluded_, {}); }

  // Calls visit(kept) for each of the slice's gradients.
  template <typename Visit>
  void ForEach(SliceId slice, const Visit& visit) {
    for (StepEntry& entry : steps_) {
      RetainedGradient& retained = entry.slices[ToNumber(slice)];
      if (retained.state != State::kNone) visit(retained);
    }
  }

 private:
  size_t slices_;
  std::vector<StepEntry> steps_;
  std::vector<Concluded> concluded_;
};

}  // namespace downpour
