#include "service/lifecycle.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

void Enter(JobState state, const std::string& error, int64_t now_ms, Job* job) {
  job->state = state;
  job->error = error;
  ++job->revision;
  if (state == JobState::kRunning) job->started_ms = now_ms;
  if (IsOver(state)) job->ended_ms = now_ms;
}

void End(const RunSeen& seen, int64_t now_ms, Job* job) {
  if (seen.exit_code == 0) {
    Enter(JobState::kSucceeded, "", now_ms, job);
  } else if (job->state == JobState::kCancelling) {
    Enter(JobState::kCancelled, job->error, now_ms, job);
  } else if (!seen.error.empty()) {
    Enter(JobState::kFailed, seen.error, now_ms, job);
  } else if (seen.exit_code) {
    Enter(JobState::kFailed, absl::StrCat("its run ended with exit code ", *seen.exit_code), now_ms, job);
  } else {
    Enter(JobState::kFailed, "its run was killed, or the machine was switched off; submit it again", now_ms, job);
  }
}

}  // namespace

std::vector<std::string> Admissible(const std::vector<Job>& unfinished, int cores) {
  const auto need = [&](const Job& job) { return std::min(CoresOf(job), cores); };
  int free = cores;
  for (const Job& job : unfinished) {
    if (job.state != JobState::kQueued) free -= need(job);
  }
  std::vector<std::string> names;
  for (const Job& job : unfinished) {
    if (job.state != JobState::kQueued) continue;
    if (need(job) > free) break;  // a small job does not overtake a large one, which would wait for ever
    free -= need(job);
    names.push_back(job.name);
  }
  return names;
}

void Admit(int64_t now_ms, Job* job) {
  if (job->state == JobState::kQueued) Enter(JobState::kPreparing, "", now_ms, job);
}

absl::Status Cancel(int64_t now_ms, Job* job) {
  if (IsOver(job->state)) {
    return absl::FailedPreconditionError(absl::StrCat("the job ", job->name, " is over: it is ", NameOf(job->state)));
  }
  const std::string why = "cancelled on request";
  if (job->state == JobState::kQueued) {
    Enter(JobState::kCancelled, why, now_ms, job);
  } else if (job->state != JobState::kCancelling) {
    Enter(JobState::kCancelling, why, now_ms, job);
  }
  return absl::OkStatus();
}

void Refuse(const std::string& why, int64_t now_ms, Job* job) {
  if (job->state == JobState::kPreparing) Enter(JobState::kFailed, why, now_ms, job);
}

bool Observe(const RunSeen& seen, int64_t now_ms, Job* job) {
  switch (job->state) {
    case JobState::kPreparing:
      if (!seen.started) return false;
      if (seen.alive) {
        Enter(JobState::kRunning, "", now_ms, job);
      } else {
        job->started_ms = now_ms;
        End(seen, now_ms, job);
      }
      return true;
    case JobState::kRunning:
    case JobState::kCancelling:
      if (seen.alive) return false;
      End(seen, now_ms, job);
      return true;
    default:
      return false;
  }
}

Act ActFor(const Job& job, const RunSeen& seen) {
  if (job.state == JobState::kPreparing && !seen.started && !seen.alive) return Act::kStart;
  if (job.state == JobState::kCancelling && seen.started && seen.alive) return Act::kStop;
  return Act::kNone;
}

}  // namespace downpour
