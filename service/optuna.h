// Optuna: a child process of Python that is told all finished trials and asked for one.
//
//   absl::StatusOr<std::vector<double>> units = AskOptuna(spec, seed, trials, folder);
//
// Shapes: nothing is kept between calls. Running trials are told too, so that no two at a time are alike.
// Cost: some seconds, for Python loads Optuna each time.
// Errors: UNAVAILABLE where Python or Optuna is absent, or does not answer within a minute.
// Source: Optuna's ask and tell, with its sampler TPE (Bergstra et al., NIPS 2011).
// Tests: tests/process/test_tuning.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/job.h"
#include "service/tuning_spec.h"

namespace downpour {

absl::StatusOr<std::vector<double>> AskOptuna(const TuningSpec& spec, uint64_t seed, const std::vector<Job>& trials,
                                              const std::string& folder);

}  // namespace downpour
