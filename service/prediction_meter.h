// PredictionMeter: how many requests a version had, of how many rows, with which errors, and how long they took.
//
//   meter.Count({.rows = 64, .ok = true, .seconds = 0.002}, now, UnixMs());
//   const PredictionCounts all = meter.Counts();       // since the version was opened
//   const RecentPredictions recent = meter.Recent(now); // of the last minute
//
// Cost: a lock of its own and some additions for each request.
// Threads: any.
// Tests: tests/unit/service/prediction_meter_test.cc.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

namespace downpour {

struct PredictionOutcome {
  uint64_t rows = 0;
  bool ok = false;
  double seconds = 0;
  std::optional<double> age_seconds = {};  // of the values of a model in training, as the answer left
};

// Upper bounds of the histogram's buckets in seconds; one more bucket has what took longer.
inline constexpr std::array<double, 18> kLatencyBounds = {50e-6,  100e-6, 150e-6, 200e-6, 300e-6, 500e-6,
                                                          750e-6, 1e-3,   2e-3,   3e-3,   5e-3,   10e-3,
                                                          20e-3,  50e-3,  0.1,    0.3,    1,      10};

inline constexpr std::array<double, 14> kAgeBounds = {25e-3, 50e-3, 0.1,  0.15, 0.2, 0.25, 0.3,
                                                      0.4,   0.5,   0.75, 1,    2,   10,   60};

template <const auto& kBounds>
struct TimeHistogram {
  uint64_t count = 0;
  double seconds = 0;                                     // of all together
  std::array<uint64_t, kBounds.size() + 1> buckets = {};  // not cumulative

  void Count(double one) {
    const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), one);
    ++buckets[static_cast<size_t>(bucket - kBounds.begin())];
    ++count;
    seconds += one;
  }
  void Add(const TimeHistogram& more) {
    count += more.count;
    seconds += more.seconds;
    for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += more.buckets[i];
  }
  // Below which that share of them stayed, between the bounds of its bucket; 0: there were none.
  double Quantile(double share) const {
    const double wanted = share * static_cast<double>(count);
    double below = 0;
    for (size_t i = 0; i < buckets.size() && count > 0; ++i) {
      const auto here = static_cast<double>(buckets[i]);
      if (below + here < wanted || here == 0) {
        below += here;
        continue;
      }
      const double from = i == 0 ? 0 : kBounds[i - 1];
      const double to = i < kBounds.size() ? kBounds[i] : from;
      return from + (to - from) * (wanted - below) / here;
    }
    return 0;
  }
};

struct PredictionCounts {
  uint64_t requests = 0, errors = 0, rows = 0;
  TimeHistogram<kLatencyBounds> latency;  // of each request
  TimeHistogram<kAgeBounds> age;          // of each answer of a model in training

  void Add(const PredictionCounts& more);
};

struct RecentPredictions {
  double requests_per_second = 0, rows_per_second = 0, errors_per_second = 0;
  double p50_seconds = 0, p99_seconds = 0;
  double p50_age_seconds = 0, p99_age_seconds = 0;  // 0: there was no answer of a model in training
};

class PredictionMeter {
 public:
  using Clock = std::chrono::steady_clock;

  void Count(const PredictionOutcome& outcome, Clock::time_point now, int64_t now_unix_ms);
  PredictionCounts Counts() const;
  RecentPredictions Recent(Clock::time_point now) const;
  int64_t last_used_ms() const;  // since 1970; 0: never

 private:
  // The last minute in parts of 10 s: each is of the time that it names, and is begun anew when its turn comes.
  static constexpr int kParts = 6;
  static constexpr auto kPart = std::chrono::seconds(10);
  struct Part {
    int64_t number = -1;
    PredictionCounts counts;
  };

  mutable std::mutex mutex_;
  PredictionCounts all_;
  std::array<Part, kParts> parts_;
  int64_t last_used_ms_ = 0;
};

}  // namespace downpour
