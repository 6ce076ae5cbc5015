// Early stopping: what the evaluations so far say of when the job is to end. It is part of the journal, so that a later
// chief counts on, and does not train what an earlier one has called needless.
//
//   if (UsesUpPatience(training, value, epoch, &record.early)) record.early.epochs = ...   // the journal writes it
//
// Order: an evaluation counts if it began after more epochs than the last one that counted. So one that is repeated,
//   since leases were opened again or another chief leads, does not count twice.
// Source: Prechelt, "Early Stopping - But When?" (1998), UP criterion with patience.
// Tests: tests/unit/chief/early_stopping_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "job/job.h"

namespace downpour {

struct EarlyStop {
  uint64_t evaluated = 0;      // epochs committed when the last evaluation that counts began
  std::optional<double> best;  // finite
  uint64_t best_epoch = 0;     // epochs committed when that evaluation began
  uint64_t without_gain = 0;   // evaluations since
  uint64_t epochs = 0;         // with which the job ends; 0: with those of its file
  bool operator==(const EarlyStop&) const = default;
};

// Takes an evaluation of a job with training.stopEarly in. True: it uses up the patience. A value that is not finite is
// never the best.
bool UsesUpPatience(const TrainingSpec& training, double value, uint64_t epoch, EarlyStop* early);

// Why the job ends before the epochs of its file, in one sentence; empty: it does not.
std::string WhyItStopsEarly(const TrainingSpec& training, const EarlyStop& early);

}  // namespace downpour
