#include "chief/chief_parts.h"

#include <glog/logging.h>

#include <utility>

#include "schema/variables.h"

namespace downpour {
namespace {

SliceGrid GridOf(const JobSpec& job) {
  absl::StatusOr<std::vector<VariableSpec>> variables = InferVariables(job.model);
  CHECK(variables.ok()) << variables.status().message();
  return MakeSliceGrid(*std::move(variables));
}

}  // namespace

ChiefParts::ChiefParts(ChiefOptions given)
    : options(std::move(given)),
      job(options.job),
      grid(GridOf(job)),
      storage(turn),
      failures(turn),
      store(storage),
      journal(turn, storage, options.timing),
      startup(storage, store, journal, job, options.resume),
      logs(storage),
      members(job.cluster, options.timing),
      data(job),
      assignment(turn, storage, members, failures, grid, options.timing),
      rounds({turn, storage, members, assignment, store, failures}, job.checkpoint, options.timing),
      recovery({turn, members, data, assignment, ledger, store, rounds, failures}, job, options.timing) {}

const char* NameOf(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "QUEUED";
    case JobState::kPreparing:
      return "PREPARING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kSucceeded:
      return "SUCCEEDED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelling:
      return "CANCELLING";
    case JobState::kCancelled:
      return "CANCELLED";
  }
  return "?";
}

}  // namespace downpour
