// The job's own clock: how long ago it began in its folder, whatever the calendars of its chiefs say.
//
//   context.age_at_start_ms = AgeAtStart(mark, began_unix_ms, context);   // `mark` is of the journal's last entry
//   entry.clock = MarkOf(context);                                        // with each entry
//
// A chief counts by its steady clock. Where the next one runs on the same host, and that was not booted meanwhile, the
// same clock tells how long the pause between them was. Else the calendar does. It was set if it says that the pause
// was negative or longer than kMostPause. Such a pause counts as none.
// Tests: tests/unit/chief/job_clock_test.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "chief/known/step_context.h"

namespace downpour {

inline constexpr std::chrono::milliseconds kMostPause = std::chrono::hours(24 * 366);

struct ClockMark {
  int64_t age_ms = 0;     // of the job
  int64_t unix_ms = 0;    // what the calendar said then; 0: there is no mark
  int64_t steady_ms = 0;  // what the steady clock said then
  std::string boot = {};  // as in Started
  bool operator==(const ClockMark&) const = default;
};

ClockMark MarkOf(const StepContext& context);

// In milliseconds. An earlier release left no mark: then by the calendar since `began_unix_ms`.
int64_t AgeAtStart(const ClockMark& mark, int64_t began_unix_ms, const StepContext& context);

}  // namespace downpour
