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

// What a run's marks say of a time, if they do. They may have been left by another clock.
int64_t TimeBetween(int64_t earliest, int64_t said, int64_t now_ms) {
  return said == 0 ? now_ms : std::clamp(said, std::min(earliest, now_ms), now_ms);
}

void End(const RunSeen& seen, int64_t now_ms, Job* job) {
  if (job->trial) {
    job->trial->objective = seen.objective;
    job->trial->step = seen.step;
    if (seen.exit_code == 0) job->trial->stopped_early = false;  // it was at its end already
  }
  if (job->trial && seen.exit_code == 0 && !seen.objective) {
    Enter(JobState::kFailed, seen.error, now_ms, job);
  } else if (job->trial && job->trial->stopped_early && seen.objective) {
    Enter(JobState::kSucceeded, "", now_ms, job);
  } else if (seen.exit_code == 0) {
    Enter(JobState::kSucceeded, "", now_ms, job);
  } else if (job->state == JobState::kCancelling || seen.cancelled) {
    Enter(JobState::kCancelled, job->state == JobState::kCancelling ? job->error : seen.error, now_ms, job);
  } else if (!seen.error.empty()) {
    Enter(JobState::kFailed, seen.error, now_ms, job);
  } else if (seen.exit_code) {
    Enter(JobState::kFailed, absl::StrCat("its run ended with exit code ", *seen.exit_code), now_ms, job);
  } else {
    Enter(JobState::kFailed, "its run was killed, or the machine was switched off; submit it again", now_ms, job);
  }
}

}  // namespace

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
  const bool has_no_run = job->state == JobState::kQueued || job->state == JobState::kPreparing;
  if (has_no_run) Enter(JobState::kFailed, why, now_ms, job);
}

bool Observe(const RunSeen& seen, int64_t now_ms, Job* job) {
  if (!seen.unknown.empty()) return false;
  switch (job->state) {
    case JobState::kPreparing:
      if (!seen.started || seen.queued) return false;
      Enter(JobState::kRunning, "", TimeBetween(job->created_ms, seen.started_ms, now_ms), job);
      if (!seen.alive) End(seen, TimeBetween(job->started_ms, seen.ended_ms, now_ms), job);
      return true;
    case JobState::kRunning:
    case JobState::kCancelling:
      if (seen.alive) return false;
      End(seen, TimeBetween(job->started_ms, seen.ended_ms, now_ms), job);
      return true;
    default:
      return false;
  }
}

void StopEarly(int64_t now_ms, Job* trial) {
  if (!trial->trial || trial->state != JobState::kRunning) return;
  trial->trial->stopped_early = true;
  Enter(JobState::kCancelling, "", now_ms, trial);
}

std::string WordsOnFailures(const std::vector<Job>& trials) {
  const auto has_failed = [](const Job& trial) { return trial.state == JobState::kFailed; };
  const auto first = std::find_if(trials.begin(), trials.end(), has_failed);
  if (first == trials.end()) return "";
  return absl::StrCat(std::count_if(first, trials.end(), has_failed), " of ", trials.size(), " trials failed; trial ",
                      TrialNumber(first->name), ": ", first->error);
}

TuningAct Tune(const TuningSpec& spec, const std::vector<Job>& trials, int64_t now_ms, Job* job,
               const std::string& hopeless) {
  TuningAct act;
  int unfinished = 0, failed = 0, succeeded = 0;
  for (const Job& trial : trials) {
    unfinished += IsOver(trial.state) ? 0 : 1;
    succeeded += trial.state == JobState::kSucceeded ? 1 : 0;
    failed += trial.state == JobState::kFailed ? 1 : 0;
  }
  const auto enter = [&](JobState state, const std::string& error) {
    Enter(state, error, now_ms, job);
    act.changed = true;
  };
  const auto fail = [&] {
    const std::string why = hopeless.empty() ? WordsOnFailures(trials) : hopeless;
    enter(JobState::kFailed, why.empty() ? "no trial succeeded" : why);
  };
  const bool has_failed =
      spec.most_failed > 0 ? failed >= spec.most_failed : succeeded == 0 && failed >= kMostFailedAtFirst;
  const bool is_hopeless = has_failed || !hopeless.empty();
  const bool is_cancelled = job->state == JobState::kCancelling;
  if (job->state == JobState::kPreparing) {
    enter(JobState::kRunning, "");
  } else if (is_cancelled || (job->state == JobState::kRunning && is_hopeless)) {
    for (const Job& trial : trials) {
      if (!IsOver(trial.state) && trial.state != JobState::kCancelling) act.cancelled.push_back(trial.name);
    }
    if (unfinished == 0) is_cancelled ? enter(JobState::kCancelled, job->error) : fail();
  } else if (job->state == JobState::kRunning && static_cast<int>(trials.size()) < spec.TrialCount()) {
    act.proposes = unfinished < spec.most_parallel;
  } else if (job->state == JobState::kRunning && unfinished == 0) {
    succeeded > 0 ? enter(JobState::kSucceeded, "") : fail();
  }
  return act;
}

Act ActFor(const Job& job, const RunSeen& seen) {
  if (!seen.unknown.empty()) return Act::kNone;
  if (job.state == JobState::kPreparing && !seen.started && !seen.alive) return Act::kStart;
  if (seen.alive && seen.orphaned && !IsOver(job.state)) return Act::kReattach;
  if (job.state == JobState::kCancelling && seen.started && seen.alive) return Act::kStop;
  return Act::kNone;
}

}  // namespace downpour
