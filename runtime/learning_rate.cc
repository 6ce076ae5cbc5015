#include "runtime/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace downpour {
namespace {

// cos(pi x) for 0 <= x <= 1, without libm's cos, whose last bit depends on the CPU. By Taylor's series, whose rest is
// below 2^-53 up to x = 1/2.
double CosOfPi(double x) {
  if (x > 0.5) return -CosOfPi(1 - x);
  const double square = std::numbers::pi * x * (std::numbers::pi * x);
  double sum = 1, term = 1;
  for (int k = 2; k <= 22; k += 2) {
    term *= -square / (k * (k - 1));
    sum += term;
  }
  return sum;
}

// decay^times, without libm's pow for the same reason.
double Decayed(double decay, uint64_t times) {
  double share = 1;
  for (; times > 0; times >>= 1, decay *= decay) {
    if (times & 1) share *= decay;
  }
  return share;
}

}  // namespace

double RateShare(const ScheduleSpec& schedule, uint64_t step, uint64_t job_steps) {
  const auto warmup = static_cast<uint64_t>(schedule.warmup_steps);
  if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
  const uint64_t after = step - warmup;
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
      return 1;
    case ScheduleKind::kStep:
      return Decayed(schedule.decay, after / static_cast<uint64_t>(schedule.step_every));
    case ScheduleKind::kCosine: {
      const uint64_t total = schedule.total_steps > 0 ? static_cast<uint64_t>(schedule.total_steps) : job_steps;
      if (step >= total) return schedule.final_share;
      const double done = static_cast<double>(after) / static_cast<double>(total - warmup);
      return schedule.final_share + (1 - schedule.final_share) * (1 + CosOfPi(done)) / 2;
    }
    case ScheduleKind::kInverseSquareRoot:
      return std::sqrt(static_cast<double>(std::max<uint64_t>(warmup, 1)) / static_cast<double>(step + 1));
  }
  return 1;
}

}  // namespace downpour
