// JobLife: where the job is between its beginning and its end. Lifecycle, Preparation and Shutdown move it on; others
// read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chief/known/job_state.h"
#include "chief/known/options.h"

namespace downpour {

struct JobLife {
  JobState state = JobState::kQueued;
  std::string error;                 // why it failed or was cancelled
  int exit_code = 0;                 // this chief's, once the job has ended
  bool diverged = false;             // and would do so again with the same learning rate
  uint32_t term = 0;                 // of this chief; 0 until it is durable
  std::string endpoint;              // of this chief
  std::vector<std::string> changes;  // of settings, by this start
  bool goes_on = false;              // another chief began the job, and none ended it
  bool placed_before = false;        // and placed its slices: the ps may hold what no checkpoint has
  bool prepared = false;             // every slice is in place, and the ledger open

  // The chief may say anything that is named by its term.
  bool ready() const { return term != 0; }
  bool runs() const { return prepared && !ended(); }
  bool ended() const {
    return state == JobState::kSucceeded || state == JobState::kFailed || state == JobState::kCancelled;
  }
};

// That people type to start the job again, but for --resume. `diverged`: with a lower learning rate.
std::string CommandToStart(const ChiefOptions& options, bool diverged);

}  // namespace downpour
