// Settings of a job under which training was measured to be unstable, or to learn less, by the tables of
// docs/LEARNING.md.
//
// Errors: none; a job whose settings are not in the tables has no finding.
// Tests: tests/unit/tools/cli/verb_check_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "job/job_file.h"

namespace downpour {

// As warnings, each placed where `read` says that the key comes from. `read` has no errors.
std::vector<JobError> UnstableSettings(const JobFileResult& read);

// Likewise, where the warm-up has more steps than the job: its learning rate is never the whole one.
std::optional<JobError> WarmupBeyondTheEnd(const JobFileResult& read, uint64_t train_examples);

}  // namespace downpour
