// Submission: whose a job folder is. Each submission of a job has an id of its own, drawn at random, which stands in
// the store's row and in the folder. So no run is taken for another's, whatever becomes of the store.
//
//   absl::Status claimed = ClaimFolder(job, folder);   // before anything else is written there
//   if (IsFolderOf(job, folder)) ...look at its run...
//   absl::Status kept = KeepJob(job, folder, &store);  // in place of store.Update(job)
//   absl::StatusOr<std::vector<std::string>> found = TakeUpLostJobs(root, &store);
//
// Shapes: JOB_DIR/service/submission is the id, and submission.json the job as it was submitted, as it is
//   being cancelled, or as it ended.
// Order: the id is the last that ClaimFolder writes, and every mark of a run comes after it. How a job ended is in its
//   folder before it is in the store.
// Errors: ALREADY_EXISTS of ClaimFolder, where the folder is another submission's; those of JobStore and WriteWhole.
// Tests: tests/unit/service/submission_test.cc, tests/process/test_service_lost.py.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/job_store.h"
#include "service/run_folder.h"

namespace downpour {


absl::Status ClaimFolder(const Job& job, const RunFolder& folder);
// A folder without an id, as an earlier release left them, is that of a row without one.
bool IsFolderOf(const Job& job, const RunFolder& folder);
absl::Status KeepJob(const Job& job, const RunFolder& folder, JobStore* store);

// Puts back into the store what it does not know, as where it was lost or is an older copy: each job whose folder
// tells what was submitted. Other folders stay as they are. The caller has the root for itself.
// Returns a sentence for each folder that the store did not know.
// Cost: a small file for each job of the store, and two for each that it does not know.
absl::StatusOr<std::vector<std::string>> TakeUpLostJobs(const std::string& root, JobStore* store);

}  // namespace downpour
