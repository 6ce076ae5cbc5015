#include "chief/known/early_stopping.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/metrics.h"
#include "schema/text.h"

namespace downpour {

bool UsesUpPatience(const TrainingSpec& training, double value, uint64_t epoch, EarlyStop* early) {
  const StopEarlySpec& spec = *training.stop_early;
  if (epoch <= early->evaluated) return false;
  early->evaluated = epoch;
  const auto shortfall = [&](double of) { return Shortfall(training.metrics, spec.metric, of); };
  const double better = early->best ? shortfall(*early->best) - shortfall(value) : 0;
  if (std::isfinite(value) && (!early->best || better > spec.min_delta)) {
    early->best = value;
    early->best_epoch = epoch;
    early->without_gain = 0;
  } else {
    ++early->without_gain;
  }
  return early->without_gain >= static_cast<uint64_t>(spec.patience);
}

std::string WhyItStopsEarly(const TrainingSpec& training, const EarlyStop& early) {
  const auto& spec = training.stop_early;
  if (!spec || early.epochs == 0) return "";
  // The best checkpoint goes by any gain, and may be of another epoch.
  if (early.best && spec->min_delta > 0) {
    return absl::StrFormat(
        "%s brought no %s that is better by more than minDelta (%.4g) than %.4g after %s; "
        "the job ends with %s of %d",
        Counted(early.without_gain, "evaluation"), spec->metric, spec->min_delta, *early.best,
        Counted(early.best_epoch, "epoch"), Counted(early.epochs, "epoch"), training.epochs);
  }
  const std::string best =
      early.best ? absl::StrFormat("%.4g after %s", *early.best, Counted(early.best_epoch, "epoch")) : "not finite";
  return absl::StrFormat("%s, the best %s was %s; the job ends with %s of %d",
                         absl::StrCat(Counted(early.without_gain, "evaluation"), " brought no better ", spec->metric),
                         spec->metric, best, Counted(early.epochs, "epoch"), training.epochs);
}

}  // namespace downpour
