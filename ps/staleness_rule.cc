#include "ps/staleness_rule.h"

#include <algorithm>
#include <cmath>

#include "optimizer/staleness_constants.h"
#include "schema/checkpoint_format.h"

namespace downpour {
namespace {

using Constants = StalenessConstants;

constexpr uint64_t kMostCounted = kMostUsualStaleness / kStalenessOne;

// Each of the others pushes once while one computes, and once more if they pull ahead. That is no part of the plan, so
// the larger number stands for both: the first pushes soon say what is so.
uint64_t ExpectedStaleness(const TrainingSpec& training, int64_t workers) {
  return training.consistency == Consistency::kSync ? 0 : static_cast<uint64_t>(2 * (workers - 1));
}

}  // namespace

StalenessRule::StalenessRule(const TrainingSpec& training, int64_t workers)
    : method_(MethodOf(training)),
      has_local_steps_(training.local_steps > 0),
      expected_(ExpectedStaleness(training, workers)) {}

uint64_t StalenessRule::UsualAfter(const Pushes& before, std::optional<uint64_t> staleness) const {
  const uint64_t usual = before.version == 0 ? expected_ * kStalenessOne : before.usual;
  return staleness ? UsualStaleness(usual, *staleness, expected_ + before.version + 1) : usual;
}

Damping StalenessRule::Of(uint64_t staleness, uint64_t usual, const SliceTraits& slice) const {
  const double stale =
      std::max(static_cast<double>(staleness), static_cast<double>(usual) / static_cast<double>(kStalenessOne));
  if (method_ == StalenessMethod::kNone || stale == 0) return {};
  const double s = 1 + stale;
  if (method_ == StalenessMethod::kRate && has_local_steps_) {
    // Of a memory of 1/s a gradient that counts 1/s at once has 1/s^2 of its whole effect.
    const double root = std::sqrt(std::min(s, Constants::kPacedDifferences));
    return {.share = 1 / (s * s), .memory = 1 / s, .beside = root * std::sqrt(root)};
  }
  if (method_ == StalenessMethod::kRate || !slice.is_trained) return {.share = 1 / s};
  const double b = std::min(s, Constants::kPaced);
  // What has no direction of its own to lessen counts less as a whole: of a matrix of few rows or columns a gradient is
  // hardly more than the part that overshoots first.
  const double pace = b / s, share = slice.has_directions ? pace : pace / std::sqrt(s);
  const double least = 1 / (s * s), most = slice.rates_fall ? least : 1;
  if (method_ == StalenessMethod::kSteepRate) {
    if (slice.rates_fall && !slice.has_directions) return {};
    return {.share = share, .steep_least = least, .steep_most = most};
  }
  const double fresh = share * (1 - 1 / s) * Constants::kAtOnce * std::sqrt(b);
  return {.share = share, .memory = s, .fresh = fresh, .steep_least = least, .steep_most = most};
}

uint64_t UsualStaleness(uint64_t usual, uint64_t staleness, uint64_t pushes) {
  const uint64_t most =
      2 * usual + Constants::kRareFrom * kStalenessOne;  // usual is at most kMostUsualStaleness, which is 2^48
  const auto seen = static_cast<int64_t>(std::min(std::min(staleness, kMostCounted) * kStalenessOne, most));
  const auto before = static_cast<int64_t>(usual);
  return static_cast<uint64_t>(before +
                               (seen - before) / static_cast<int64_t>(std::min(pushes, Constants::kPushesOfMean)));
}

}  // namespace downpour
