#include "cluster/status_view.h"

#include <algorithm>

namespace downpour {
namespace {

bool IsEnd(const std::string& state) { return state == "SUCCEEDED" || state == "FAILED" || state == "CANCELLED"; }

}  // namespace

bool IsHealthy(const StatusReport& status) {
  const auto is = [&](const char* state) { return status.state == state; };
  if (!is("QUEUED") && !is("PREPARING") && !is("RUNNING") && !is("SUCCEEDED")) return false;
  // A job that has run before misses whom it waits for.
  const bool all_were_there = is("RUNNING") || status.recovery.chief_restarts.value_or(0) > 0;
  if (all_were_there && !status.pending.empty()) return false;
  if (!status.stalled.empty() || !status.diverging.empty()) return false;
  return std::none_of(status.failures.begin(), status.failures.end(),
                      [](const FailureReport& f) { return f.age.value_or(0) <= kLately; });
}

bool HasEnded(const StatusReport& status) { return IsEnd(status.state); }
bool HasEnded(const SummaryReport& summary) { return IsEnd(summary.state); }

bool IsAnotherRun(const std::string& run, const std::string& other) {
  return !run.empty() && !other.empty() && run != other;
}

std::vector<WaitGroup> GroupWaits(const std::vector<WaitReport>& waits) {
  std::vector<WaitGroup> groups;
  for (const WaitReport& wait : waits) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const WaitGroup& g) { return g.on == wait.on && g.why == wait.why; });
    if (group == groups.end()) group = groups.insert(groups.end(), {{}, wait.on, wait.why, wait.seconds});
    group->tasks.push_back(wait.task);
    group->seconds = std::max(group->seconds, wait.seconds);
  }
  return groups;
}

MaybeNumber EpochsDone(const StatusReport& status) {
  const ProgressReport& progress = status.progress;
  // The first epochs of a job whose data grew have fewer examples.
  const bool grew = progress.examples && progress.epochs && progress.train_examples &&
                    *progress.examples != *progress.train_examples * *progress.epochs;
  if (progress.examples_committed && progress.train_examples.value_or(0) > 0 && !grew) {
    return static_cast<double>(*progress.examples_committed) / static_cast<double>(*progress.train_examples);
  }
  return progress.epoch ? MaybeNumber(*progress.epoch) : std::nullopt;
}

}  // namespace downpour
