// What a job is warned of before it starts, by every verb that reads one: check, run, doctor and jobs submit.
//
// Errors: none; what a job with errors would do is not known, so there only its data are told.
// Tests: tests/unit/tools/cli/job_warnings_test.cc.
#pragma once

#include <string>
#include <vector>

#include "job/job_file.h"
#include "tools/cli/data_facts.h"
#include "tools/cli/verbs.h"

namespace downpour {

// Says on stderr, in the name of the verb, and returns: of the data, of settings that were measured to be unstable, and
// of what can only be a slip: a warm-up that outlasts the job, servers without slices, more workers than leases, a
// batch of all examples. Each is placed where `read` says that its key comes from.
std::vector<JobError> TellWarnings(const std::string& verb, const JobFileResult& read, const DataFacts& facts,
                                   Streams streams);

// Without a word.
std::vector<JobError> WarningsOf(const JobFileResult& read, const DataFacts& facts);

}  // namespace downpour
