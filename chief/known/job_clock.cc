#include "chief/known/job_clock.h"

namespace downpour {
namespace {

int64_t SteadyMs(Time time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

int64_t Believable(int64_t pause_ms) { return pause_ms < 0 || pause_ms > kMostPause.count() ? 0 : pause_ms; }

}  // namespace

ClockMark MarkOf(const StepContext& context) {
  return {.age_ms = context.JobAgeMs(),
          .unix_ms = context.UnixMs(),
          .steady_ms = SteadyMs(context.now),
          .boot = context.boot};
}

int64_t AgeAtStart(const ClockMark& mark, int64_t began_unix_ms, const StepContext& context) {
  if (mark.unix_ms == 0) return Believable(context.started_unix_ms - began_unix_ms);
  const bool same_clock = !mark.boot.empty() && mark.boot == context.boot;
  const int64_t pause =
      same_clock ? SteadyMs(context.started) - mark.steady_ms : context.started_unix_ms - mark.unix_ms;
  return mark.age_ms + Believable(pause);
}

}  // namespace downpour
