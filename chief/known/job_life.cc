#include "chief/known/job_life.h"

#include "absl/strings/str_format.h"
#include "chief/known/learning_watch.h"
#include "schema/typed_command.h"

namespace downpour {

std::string CommandToStart(const ChiefOptions& options, bool diverged) {
  if (!diverged) return options.command;
  const double rate = options.job.training.optimizer.learning_rate / kRateFactor;
  return WithFlag(options.command, absl::StrFormat("--set training.optimizer.learningRate=%.3g", rate));
}

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
