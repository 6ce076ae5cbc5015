#include "tools/cli/learning_facts.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "job/job_names.h"
#include "runtime/plan.h"
#include "schema/text.h"
#include "tools/cli/data_facts.h"

namespace downpour {
namespace {

// The rows of docs/research/staleness.md, and those of `rate` of docs/OPTIMIZERS.md.
constexpr double kMeasuredMomentum = 0.9;
constexpr int64_t kUndamped = 8;  // with `none` they lose a point, and 16 of them most runs
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kAdaptedUndamped = 4;   // with `none` and adam lose half of what one learns, and 16 nearly all
constexpr int64_t kFallingUndamped = 16;  // with `none` and adagrad or ftrl learn nothing
constexpr int64_t kOverlapping = 4;       // with local steps and `none` or `slowMomentum` they learn little or nothing
constexpr int64_t kSmoothing = 4;      // fewer of them make an outer momentum of 0.9 count differences many times over
constexpr int64_t kPullingAhead = 32;  // are as stale as twice as many, which nobody measured
constexpr int64_t kSlowed = 16;        // with `rate` lose more than a point
constexpr int64_t kAdaptedSlowed = 4;  // likewise with adam, and so with what adapts its steps as adam does

bool HasHeavyMomentum(const OptimizerSpec& optimizer) {
  const bool has_momentum = optimizer.kind == OptimizerKind::kMomentum || optimizer.kind == OptimizerKind::kNesterov;
  return has_momentum && optimizer.momentum >= kMeasuredMomentum;
}

// From how many workers on `none` was measured to be unstable; what is like a rule counts as that one.
int64_t UndampedFrom(const OptimizerSpec& optimizer) {
  switch (optimizer.kind) {
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return HasHeavyMomentum(optimizer) ? kUndamped : kNever;
    case OptimizerKind::kRmsProp:
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return kAdaptedUndamped;
    case OptimizerKind::kAdagrad:
    case OptimizerKind::kFtrl:
      return kFallingUndamped;
    case OptimizerKind::kSgd:
      break;
  }
  return kNever;
}

}  // namespace

std::vector<JobError> UnstableSettings(const JobFileResult& read) {
  std::vector<JobError> warnings;
  const auto warn = [&](const std::string& key, const std::string& what, const std::string& remedy) {
    const std::string more = absl::StrCat(remedy, "; docs/LEARNING.md has the measurements");
    warnings.push_back(PlacedAt(read, key, what, more));
  };
  const TrainingSpec& training = read.job.training;
  if (training.consistency == Consistency::kSync) return warnings;  // nothing is stale
  const int64_t workers = read.job.cluster.worker_count;
  const std::string crowd = absl::StrCat(" with ", Counted(workers, "worker"));
  if (training.local_steps > 0) {
    if (training.staleness_method != StalenessMethod::kAuto && training.staleness_method != StalenessMethod::kRate &&
        workers >= kOverlapping) {
      warn("training.staleness.method",
           absl::StrCat(NameIn(kStalenessMethods, training.staleness_method), " and local steps", crowd,
                        " are unstable"),
           "--set training.staleness.method=auto");
    }
    if (training.outer.kind != OptimizerKind::kSgd && training.outer.momentum >= kMeasuredMomentum &&
        workers < kSmoothing) {
      warn("training.outer.momentum",
           absl::StrCat("0.9 or more", crowd, " counts what local steps changed many times over, and is unstable"),
           "--set training.outer.name=sgd, or a lower training.optimizer.learningRate");
    }
    return warnings;
  }
  if (training.staleness_method == StalenessMethod::kNone && workers >= UndampedFrom(training.optimizer)) {
    const std::string name = NameIn(kOptimizers, training.optimizer.kind);
    warn("training.staleness.method",
         absl::StrCat("none and ", HasHeavyMomentum(training.optimizer) ? "a momentum of 0.9 or more" : name, crowd,
                      " is unstable"),
         "--set training.staleness.method=auto");
  }
  const OptimizerKind kind = training.optimizer.kind;
  const bool adapts = kind == OptimizerKind::kRmsProp || kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW;
  if (training.staleness_method == StalenessMethod::kRate && workers >= (adapts ? kAdaptedSlowed : kSlowed)) {
    warn("training.staleness.method", absl::StrCat("rate", crowd, " learns less in the same epochs"),
         "--set training.staleness.method=auto, or train for more epochs");
  }
  if (training.pull_ahead && workers >= kPullingAhead) {
    warn("training.pullAhead", absl::StrCat("it makes parameters about twice as stale, and", crowd, " costs accuracy"),
         "--set training.pullAhead=false");
  }
  return warnings;
}

std::optional<JobError> WarmupBeyondTheEnd(const JobFileResult& read, uint64_t train_examples) {
  const auto warmup = static_cast<uint64_t>(read.job.training.optimizer.schedule.warmup_steps);
  const Plan plan(read.job, train_examples);
  const uint64_t steps = read.job.training.local_steps > 0 ? plan.total_batches() : plan.total_steps();
  if (warmup <= steps) return std::nullopt;
  return PlacedAt(read, "training.optimizer.schedule.warmupSteps",
                  absl::StrCat("the job has ", steps, " steps and the warm-up ", warmup,
                               ": its learning rate is never the whole one"),
                  "take fewer, or raise training.epochs");
}

}  // namespace downpour
