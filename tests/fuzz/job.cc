// A job file that is accepted has a canonical text that says the same; one that is refused says why, and where.
#include <glog/logging.h>

#include <string>

#include "job/job_file.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downpour;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const JobFileResult result = ParseJob(text, "job.yaml");
  for (const JobError& error : result.errors) CHECK(!error.what.empty()) << ToString(error);
  if (!result.ok()) return 0;
  const std::string canonical = CanonicalJob(result.job);
  const absl::StatusOr<JobSpec> again = ParseCanonicalJob(canonical);
  CHECK(again.ok()) << again.status();
  CHECK(CanonicalJob(*again) == canonical);
  return 0;
}
