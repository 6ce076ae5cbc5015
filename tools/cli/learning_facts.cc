#include "tools/cli/learning_facts.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

// The rows of docs/LEARNING.md.
constexpr double kMeasuredMomentum = 0.9;
constexpr int64_t kUndamped = 8;       // with `none` they lose a point, and 16 of them most runs
constexpr int64_t kPullingAhead = 16;  // lose more than a point
constexpr int64_t kSlowed = 16;        // with `rate` lose more than a point

}  // namespace

std::vector<JobError> UnstableSettings(const JobFileResult& read) {
  std::vector<JobError> warnings;
  const auto warn = [&](const std::string& key, const std::string& what, const std::string& remedy) {
    const auto origin = read.origins.find(key);
    warnings.push_back({.file = origin == read.origins.end() ? "" : origin->second,
                        .key = key,
                        .what = what,
                        .remedy = absl::StrCat(remedy, "; docs/LEARNING.md has the measurements")});
  };
  const TrainingSpec& training = read.job.training;
  if (training.consistency == Consistency::kSync) return warnings;  // nothing is stale
  const int64_t workers = read.job.cluster.worker_count;
  const std::string crowd = absl::StrCat(" with ", workers, " workers");
  const bool heavy =
      training.optimizer.kind == OptimizerKind::kMomentum && training.optimizer.momentum >= kMeasuredMomentum;
  if (training.staleness_method == StalenessMethod::kNone && heavy && workers >= kUndamped) {
    warn("training.staleness.method", absl::StrCat("none and a momentum of 0.9 or more", crowd, " is unstable"),
         "--set training.staleness.method=auto");
  }
  if (training.staleness_method == StalenessMethod::kRate && workers >= kSlowed) {
    warn("training.staleness.method", absl::StrCat("rate", crowd, " learns less in the same epochs"),
         "train for more epochs, or with fewer workers");
  }
  if (training.pull_ahead && workers >= kPullingAhead) {
    warn("training.pullAhead", absl::StrCat("it makes parameters about twice as stale, and", crowd, " costs accuracy"),
         "--set training.pullAhead=false");
  }
  return warnings;
}

}  // namespace downpour
