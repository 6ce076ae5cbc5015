#include "service/progress_board.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cluster/job_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

// One of the user's own stands among the metrics.
MaybeNumber AccuracyOf(const MaybeNumber& own, const MetricValueList& metrics) {
  for (const auto& [name, value] : metrics) {
    if (name == "accuracy" && !own) return value;
  }
  return own;
}

bool Runs(const Job& job) { return job.state == JobState::kRunning || job.state == JobState::kCancelling; }

// A file that is there and cannot be read, as where too many are open, leaves it unknown.
void ReadSummary(const std::string& path, JobProgress* progress, bool* known) {
  const absl::StatusOr<std::string> json = ReadTextFile(path);
  const absl::StatusOr<SummaryReport> summary = json.ok() ? ParseSummary(*json) : json.status();
  if (summary.ok()) *progress = ProgressIn(*summary);
  std::error_code ignored;
  *known = summary.ok() || fs::status(path, ignored).type() == fs::file_type::not_found;
}

}  // namespace

JobProgress ProgressIn(const StatusReport& status) {
  JobProgress progress{.elapsed = status.elapsed, .remaining = status.remaining, .loss = status.progress.loss};
  const MaybeNumber epochs = EpochsDone(status);
  if (epochs && status.progress.epochs.value_or(0) > 0)
    progress.done = std::clamp(*epochs / *status.progress.epochs, 0.0, 1.0);
  if (status.evaluation.loss) progress.loss = status.evaluation.loss;
  progress.accuracy = AccuracyOf(status.evaluation.accuracy, status.evaluation.metrics);
  return progress;
}

JobProgress ProgressIn(const SummaryReport& summary) {
  JobProgress progress{.elapsed = summary.elapsed,
                       .loss = summary.eval_loss,
                       .accuracy = AccuracyOf(summary.eval_accuracy, summary.eval_metrics)};
  if (summary.state == "SUCCEEDED") progress.done = 1;
  return progress;
}

ProgressBoard::~ProgressBoard() {
  {
    const std::lock_guard hold(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  asks_.join();
}

void ProgressBoard::Want(const std::vector<Job>& jobs, const std::function<std::string(const Job&)>& job_dir_of) {
  std::vector<std::string> running;
  std::unique_lock hold(mutex_);
  ForgetTheUnwanted();
  for (const Job& job : jobs) {
    if (!Runs(job) && !IsOver(job.state)) continue;
    const std::string key = RunKey(job);
    Entry& entry = entries_[key];
    entry.wanted_until = Clock::now() + wanted_for_;
    if (Runs(job)) {
      entry.run = Entry::Run{job, job_dir_of(job)};
      running.push_back(key);
    } else if (!entry.known) {
      ReadSummary(job_dir_of(job) + "/summary.json", &entry.progress, &entry.known);
    }
  }
  changed_.notify_all();
  changed_.wait_for(hold, kFirstLook, [&] { return AllKnown(running) || ends_; });
}

void ProgressBoard::ForgetTheUnwanted() {
  std::erase_if(entries_, [now = Clock::now()](const auto& entry) { return entry.second.wanted_until < now; });
}

bool ProgressBoard::AllKnown(const std::vector<std::string>& keys) const {
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) {
    const auto found = entries_.find(key);
    return found == entries_.end() || found->second.known;
  });
}

JobProgress ProgressBoard::Of(const Job& job) const {
  const std::lock_guard hold(mutex_);
  const auto found = entries_.find(RunKey(job));
  return found == entries_.end() ? JobProgress{} : found->second.progress;
}

bool ProgressBoard::HasWork() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const auto& entry) { return entry.second.run.has_value(); });
}

void ProgressBoard::Ask() {
  std::unique_lock hold(mutex_);
  while (true) {
    changed_.wait(hold, [this] { return ends_ || HasWork(); });
    if (ends_) return;
    ForgetTheUnwanted();
    std::vector<Entry::Run> round;
    for (const auto& [key, entry] : entries_) {
      if (entry.run) round.push_back(*entry.run);
    }
    for (const Entry::Run& run : round) {
      hold.unlock();
      const absl::StatusOr<SharedAnswer> answer = statuses_.Of(run.job, run.job_dir);
      hold.lock();
      if (ends_) return;
      const auto found = entries_.find(RunKey(run.job));
      if (found == entries_.end()) continue;
      found->second.known = true;
      if (answer.ok() && (*answer)->status) found->second.progress = ProgressIn(*(*answer)->status);
      changed_.notify_all();
    }
    // A job that has just begun to run is asked at once.
    changed_.wait_for(hold, kAskEvery, [this] {
      return ends_ || std::any_of(entries_.begin(), entries_.end(),
                                  [](const auto& entry) { return entry.second.run && !entry.second.known; });
    });
  }
}

}  // namespace downpour
