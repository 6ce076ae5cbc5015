// A job in its folder, as the chief reads it, with the user's Python code if it has some.
//
//   auto job_file = StagePythonCode(python->archive, job, scratch, job_dir, Accepted::kOnceAChiefLeads);
//   SettlePythonCode(job_dir);
//
// Shapes: JOB_DIR/python as python_code.h has it. Beside it, for a while, python.new: code that is being written, or
//   what was there before. In python/ the file after-term: no chief may have led with this code. It holds the term of
//   the chief that led last before it.
// Order: whoever calls these has claimed the folder (job_folder.h). There is a whole python/ at any time once there was
//   one, but for a moment where the file system cannot swap two folders, as NFS cannot. Whatever a killed start leaves
//   is settled by the next one.
// Errors: UNAVAILABLE where the folder cannot be written.
// Tests: tests/unit/tools/cli/staged_code_test.cc.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "job/job.h"
#include "schema/payload.h"

namespace downpour {

enum class Accepted { kAtOnce, kOnceAChiefLeads };

// Replaces what an earlier start of the job put there, which is set aside until SettlePythonCode. The path of the job's
// file. `folder`: as DescribePythonCode has filled it. Where it fails what was there stays.
absl::StatusOr<std::string> StagePythonCode(const Payload& archive, const JobSpec& job, const std::string& folder,
                                            const std::string& job_dir, Accepted accepted);

// What was set aside is removed where a chief has led with the new code, else put back.
void SettlePythonCode(const std::string& job_dir);

// The job's file alone. Its path: JOB_DIR/python/job.json.
absl::StatusOr<std::string> StageJob(const JobSpec& job, const std::string& job_dir);

}  // namespace downpour
