#include "service/prediction_meter.h"

namespace downpour {
namespace {

void CountInto(const PredictionOutcome& outcome, PredictionCounts* counts) {
  ++counts->requests;
  counts->errors += outcome.ok ? 0 : 1;
  counts->rows += outcome.ok ? outcome.rows : 0;
  counts->latency.Count(outcome.seconds);
  if (outcome.ok && outcome.age_seconds) counts->age.Count(*outcome.age_seconds);
}

}  // namespace

void PredictionCounts::Add(const PredictionCounts& more) {
  requests += more.requests;
  errors += more.errors;
  rows += more.rows;
  latency.Add(more.latency);
  age.Add(more.age);
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
          .p50_seconds = sum.latency.Quantile(0.5),
          .p99_seconds = sum.latency.Quantile(0.99),
          .p50_age_seconds = sum.age.Quantile(0.5),
          .p99_age_seconds = sum.age.Quantile(0.99)};
}

}  // namespace downpour
