// What the folder of a job does that is over for the service: somebody may have resumed it there by hand.
//
//   if (IsResumed(job, folder)) ...it trains, and the service has no part in it...
//   ShowWhatItsFolderDoes(folder, &job);    // of what is shown, never of what is stored
//
// Cost: two locks and a file are looked at.
// Errors: none; what cannot be read changes nothing.
// Tests: tests/unit/service/resumed_test.cc, tests/process/test_job_service.py.
#pragma once

#include <string>

#include "service/job.h"
#include "service/run_folder.h"

namespace downpour {

bool IsResumed(const Job& job, const RunFolder& folder);
// What ends one, for a client who asks the service for it.
std::string HowToEndIt(const RunFolder& folder);

// RUNNING while it is resumed; later how that ended, by the folder's summary where it is younger than the job's end.
void ShowWhatItsFolderDoes(const RunFolder& folder, Job* job);

}  // namespace downpour
