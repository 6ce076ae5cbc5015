// PredictionBounds: whether a request for predictions is computed on, which is asked between blocks of its rows.
//
//   const PredictionBounds bounds{.begun = now, .most = 30s, .has_gone = [...] {...}, .ends = &ends};
//   status = WhyEnd(bounds, PredictionMeter::Clock::now(), /*done=*/8192, /*rows=*/60000);
//
// Errors: UNAVAILABLE once the service ends, CANCELLED once nobody waits for the answer, DEADLINE_EXCEEDED after `most`
//   with the remedy.
// Tests: tests/unit/service/prediction_bounds_test.cc, tests/process/test_predictions.py.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>

#include "absl/status/status.h"

namespace downpour {

struct PredictionBounds {
  std::chrono::steady_clock::time_point begun = {};  // its computation
  std::chrono::milliseconds most{30'000};            // that this may take
  std::function<bool()> has_gone = {};               // whoever asks; empty: nobody knows
  const std::atomic<bool>* ends = nullptr;           // the service
};

// What is said from the end of the service on.
absl::Status ServiceEnds();

// `done` of its `rows` are computed.
absl::Status WhyEnd(const PredictionBounds& bounds, std::chrono::steady_clock::time_point now, size_t done,
                    size_t rows);

}  // namespace downpour
