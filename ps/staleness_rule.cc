#include "ps/staleness_rule.h"

#include <algorithm>
#include <cmath>

#include "schema/checkpoint_format.h"

namespace downpour {
namespace {

constexpr int64_t kPushesOfMean = 64;  // a power of two: its division is exact
constexpr uint64_t kMostCounted = kMostUsualStaleness / kStalenessOne;

StalenessMethod MethodFor(const TrainingSpec& training) {
  if (training.staleness_method != StalenessMethod::kAuto) return training.staleness_method;
  switch (training.optimizer.kind) {
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return StalenessMethod::kSlowMomentum;
    case OptimizerKind::kAdagrad:
    case OptimizerKind::kFtrl:
      return StalenessMethod::kNone;
    case OptimizerKind::kSgd:
    case OptimizerKind::kRmsProp:
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      break;
  }
  return StalenessMethod::kRate;
}

}  // namespace

StalenessRule::StalenessRule(const TrainingSpec& training) : method_(MethodFor(training)) {}

Damping StalenessRule::Of(uint64_t staleness, uint64_t usual) const {
  const double stale =
      std::max(static_cast<double>(staleness), static_cast<double>(usual) / static_cast<double>(kStalenessOne));
  if (method_ == StalenessMethod::kNone || stale == 0) return {};
  const double s = 1 + stale;
  if (method_ == StalenessMethod::kRate) return {.share = 1 / s};
  const double half = std::sqrt(s), quarter = std::sqrt(half), eighth = std::sqrt(quarter);  // s to that power
  return {.share = 1 / (half * eighth), .memory = s * quarter, .fresh = (1 - 1 / s) / (quarter * eighth)};
}

uint64_t UsualStaleness(uint64_t usual, uint64_t staleness) {
  const auto seen = static_cast<int64_t>(std::min(staleness, kMostCounted) * kStalenessOne);
  const auto before = static_cast<int64_t>(usual);
  return static_cast<uint64_t>(before + (seen - before) / kPushesOfMean);
}

}  // namespace downpour
