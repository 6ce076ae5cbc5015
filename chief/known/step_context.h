// What every part of the chief works with: the time of the Step being taken and where its effects go.
//
// Order: the role sets `now` before a Step and takes `out` after it; parts keep a reference and use it only within
//   Steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "runtime/role.h"

namespace downpour {

struct StepContext {
  Time now{};
  Effects out;

  Time started{};
  int64_t started_unix_ms = 0;  // wall clock at `started`

  Duration ran_before{};  // the job, without a chief
  Duration Ran() const { return now - started + ran_before; }

  std::string boot;  // as in Started

  // For people and manifests, never for logic.
  int64_t UnixMs() const {
    return started_unix_ms + std::chrono::duration_cast<std::chrono::milliseconds>(now - started).count();
  }

  // How long ago the job began in its folder: job_clock.h.
  int64_t age_at_start_ms = 0;
  int64_t JobAgeMs() const { return JobAgeAt(UnixMs()); }
  // At a time that UnixMs() gave.
  int64_t JobAgeAt(int64_t unix_ms) const { return age_at_start_ms + unix_ms - started_unix_ms; }
};

inline std::string MessageOf(const absl::Status& status) { return {status.message().data(), status.message().size()}; }

}  // namespace downpour
