#include "service/prediction_meter.h"

#include <algorithm>

namespace downpour {
namespace {

void CountInto(const PredictionOutcome& outcome, PredictionCounts* counts) {
  const auto bucket = std::lower_bound(kLatencyBounds.begin(), kLatencyBounds.end(), outcome.seconds);
  ++counts->buckets[static_cast<size_t>(bucket - kLatencyBounds.begin())];
  ++counts->requests;
  counts->errors += outcome.ok ? 0 : 1;
  counts->rows += outcome.ok ? outcome.rows : 0;
  counts->seconds += outcome.seconds;
}

}  // namespace

void PredictionCounts::Add(const PredictionCounts& more) {
  requests += more.requests;
  errors += more.errors;
  rows += more.rows;
  seconds += more.seconds;
  for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += more.buckets[i];
}

double PredictionCounts::Quantile(double share) const {
  const double wanted = share * static_cast<double>(requests);
  double below = 0;
  for (size_t i = 0; i < buckets.size() && requests > 0; ++i) {
    const auto here = static_cast<double>(buckets[i]);
    if (below + here < wanted || here == 0) {
      below += here;
      continue;
    }
    const double from = i == 0 ? 0 : kLatencyBounds[i - 1];
    const double to = i < kLatencyBounds.size() ? kLatencyBounds[i] : from;
    return from + (to - from) * (wanted - below) / here;
  }
  return 0;
}

void PredictionMeter::Count(const PredictionOutcome& outcome, Clock::time_point now, int64_t now_unix_ms) {
  const int64_t number = now.time_since_epoch() / kPart;
  const std::lock_guard hold(mutex_);
  CountInto(outcome, &all_);
  Part& part = parts_[static_cast<size_t>(number % kParts)];
  if (part.number != number) part = {.number = number, .counts = {}};
  CountInto(outcome, &part.counts);
  last_used_ms_ = now_unix_ms;
}

PredictionCounts PredictionMeter::Counts() const {
  const std::lock_guard hold(mutex_);
  return all_;
}

int64_t PredictionMeter::last_used_ms() const {
  const std::lock_guard hold(mutex_);
  return last_used_ms_;
}

RecentPredictions PredictionMeter::Recent(Clock::time_point now) const {
  const int64_t number = now.time_since_epoch() / kPart;
  PredictionCounts sum;
  {
    const std::lock_guard hold(mutex_);
    for (const Part& part : parts_) {
      if (part.number > number - kParts && part.number <= number) sum.Add(part.counts);
    }
  }
  using Seconds = std::chrono::duration<double>;
  const double span = Seconds(now.time_since_epoch() % kPart).count() + Seconds(kPart * (kParts - 1)).count();
  return {.requests_per_second = static_cast<double>(sum.requests) / span,
          .rows_per_second = static_cast<double>(sum.rows) / span,
          .errors_per_second = static_cast<double>(sum.errors) / span,
          .p50_seconds = sum.Quantile(0.5),
          .p99_seconds = sum.Quantile(0.99)};
}

}  // namespace downpour
