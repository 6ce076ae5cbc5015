#include "service/prediction_meter.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

using Clock = PredictionMeter::Clock;

constexpr Clock::time_point kBegin{std::chrono::hours(100)};

TEST(PredictionMeterTest, CountsRequestsRowsAndErrors) {
  PredictionMeter meter;
  meter.Count({.rows = 3, .ok = true, .seconds = 0.001}, kBegin, 7);
  meter.Count({.rows = 9, .ok = false, .seconds = 100}, kBegin, 8);
  const PredictionCounts counts = meter.Counts();
  EXPECT_EQ(counts.requests, 2u);
  EXPECT_EQ(counts.errors, 1u);
  EXPECT_EQ(counts.rows, 3u) << "rows that were refused do not count";
  EXPECT_EQ(counts.latency.buckets.back(), 1u) << "longer than all bounds";
  EXPECT_EQ(meter.last_used_ms(), 8);
}

TEST(PredictionMeterTest, AQuantileLiesInItsBucket) {
  PredictionMeter meter;
  EXPECT_EQ(meter.Counts().latency.Quantile(0.5), 0);
  for (int i = 0; i < 99; ++i) meter.Count({.rows = 1, .ok = true, .seconds = 0.00025}, kBegin, 0);
  meter.Count({.rows = 1, .ok = true, .seconds = 0.5}, kBegin, 0);
  const double p50 = meter.Counts().latency.Quantile(0.5), p100 = meter.Counts().latency.Quantile(1);
  EXPECT_GT(p50, 200e-6);
  EXPECT_LE(p50, 300e-6);
  EXPECT_GT(p100, 0.3);
  EXPECT_LE(p100, 1);
}

TEST(PredictionMeterTest, OnlyAnswersOfAModelInTrainingHaveAnAge) {
  PredictionMeter meter;
  meter.Count({.rows = 1, .ok = true, .seconds = 0.001}, kBegin, 0);
  EXPECT_EQ(meter.Recent(kBegin).p99_age_seconds, 0);
  meter.Count({.rows = 1, .ok = true, .seconds = 0.001, .age_seconds = 0.22}, kBegin, 0);
  meter.Count({.rows = 1, .ok = false, .seconds = 0.001, .age_seconds = 50}, kBegin, 0);
  EXPECT_EQ(meter.Counts().age.count, 1u) << "an error has no values";
  EXPECT_GT(meter.Recent(kBegin).p99_age_seconds, 0.2);
  EXPECT_LE(meter.Recent(kBegin).p99_age_seconds, 0.25);
}

TEST(PredictionMeterTest, TheLastMinuteForgetsWhatIsOlder) {
  PredictionMeter meter;
  for (int i = 0; i < 100; ++i) meter.Count({.rows = 2, .ok = i % 2 == 0, .seconds = 0.001}, kBegin, 0);
  const RecentPredictions now = meter.Recent(kBegin);
  EXPECT_NEAR(now.requests_per_second, 2, 1e-9);  // of the 50 s before this part began
  EXPECT_NEAR(now.rows_per_second, 2, 1e-9);
  EXPECT_NEAR(now.errors_per_second, 1, 1e-9);
  EXPECT_GT(meter.Recent(kBegin + std::chrono::seconds(59)).requests_per_second, 0);
  EXPECT_EQ(meter.Recent(kBegin + std::chrono::seconds(60)).requests_per_second, 0);
  meter.Count({.rows = 1, .ok = true, .seconds = 0.001}, kBegin + std::chrono::seconds(60), 0);
  EXPECT_NEAR(meter.Recent(kBegin + std::chrono::seconds(60)).requests_per_second, 0.02, 1e-9);
}

}  // namespace
}  // namespace downpour
