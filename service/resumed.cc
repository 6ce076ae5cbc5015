#include "service/resumed.h"

#include "absl/strings/str_cat.h"
#include "cluster/job_folder.h"
#include "schema/status_report.h"
#include "service/submission.h"

namespace downpour {
namespace {

// A job that has succeeded is not resumed, and nobody resumes a trial or a search by hand.
bool MayBeResumed(const Job& job) {
  return (job.state == JobState::kFailed || job.state == JobState::kCancelled) && !job.trial && !IsTuning(job);
}

}  // namespace

bool IsResumed(const Job& job, const RunFolder& folder) {
  return MayBeResumed(job) && IsAtWork(folder.job_dir()) && IsFolderOf(job, folder);
}

std::string HowToEndIt(const RunFolder& folder) {
  return absl::StrCat("it was resumed by hand in its folder, where `downpour stop --job-dir ", folder.job_dir(),
                      "` ends it");
}

void ShowWhatItsFolderDoes(const RunFolder& folder, Job* job) {
  if (IsResumed(*job, folder)) {
    job->state = JobState::kRunning;
    job->state_message = HowToEndIt(folder);
    job->error.clear();
    job->ended_ms = 0;
    return;
  }
  const int64_t summed_up_ms = folder.SummaryWrittenMs();
  if (!MayBeResumed(*job) || summed_up_ms <= job->ended_ms || !IsFolderOf(*job, folder)) return;
  const absl::StatusOr<std::string> json = ReadTextFile(folder.job_dir() + "/summary.json");
  const absl::StatusOr<SummaryReport> summary = json.ok() ? ParseSummary(*json) : json.status();
  const std::optional<JobState> state = summary.ok() ? StateNamed(summary->state) : std::nullopt;
  if (!state || !IsOver(*state)) return;
  job->state = *state;
  job->error = summary->error;
  job->ended_ms = summed_up_ms;
}

}  // namespace downpour
