// How fast the job goes and what the loss is, smoothed over what came in last.
//
// Units: examples of committed leases; loss per example, or per weight of 1.
// Tests: tests/unit/chief/progress_test.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "chief/known/rate_window.h"

namespace downpour {

class Progress {
 public:
  static constexpr size_t kLossReports = 32;
  // After so long without any movement a job that has work to do stands still. Longer than a retry (data_retry) and the
  // death of a task (dead_after) take to be dealt with.
  static constexpr Duration kStandsStillAfter = 10s;

  void Begin(Time now, uint64_t examples_committed);
  void Commit(Time now, uint64_t examples_committed);
  // Some task got on, if only a little.
  void Move(Time now);
  // The chief itself stood still for so long, and heard of no movement meanwhile.
  void Discount(Duration pause) { moved_ += pause; }
  // A worker's sum over examples of a lease; one that is not finite says that training diverged, and is left out.
  // `weight`: of those examples, each of which counts as 1 where the data have no weights.
  void ReportLoss(double loss_sum, double weight);
  // So many epochs are whole, with what was reported so far.
  void NoteEpochs(uint64_t epochs);

  double ExamplesPerSecond(Time now) const { return StandsStill(now) ? 0 : rate_.PerSecond(now); }
  Duration StillFor(Time now) const { return began_ ? std::max(Duration::zero(), now - moved_) : Duration::zero(); }
  bool StandsStill(Time now) const { return StillFor(now) >= kStandsStillAfter; }
  double SecondsSinceBegin(Time now) const { return began_ ? Seconds(now - *began_) : 0; }
  // Over the whole of this chief's run, up to the last commit.
  std::optional<double> MeanExamplesPerSecond() const;
  std::optional<double> RemainingSeconds(Time now, uint64_t examples_left) const;
  // Over the newest reports.
  std::optional<double> Loss() const;
  // Over the last epoch that is whole, if one became so under this chief and its loss is finite.
  std::optional<double> EpochLoss() const;

  // Of all leases reported so far. Two of them, one taken later, tell of the leases between.
  struct LossTotals {
    double sum = 0;
    double weight = 0;
    uint64_t not_finite = 0;  // reports
    // Per example. Nothing: no report came since. No number: one was not finite.
    std::optional<double> MeanSince(const LossTotals& before) const;
  };
  const LossTotals& loss_totals() const { return loss_totals_; }

 private:
  struct LossReport {
    double sum = 0;
    double weight = 0;
  };
  RateWindow rate_;
  std::deque<LossReport> losses_;
  LossTotals loss_totals_;
  uint64_t epochs_ = 0;       // that are whole
  LossTotals epochs_totals_;  // when the last of them became so
  std::optional<double> epoch_loss_;
  std::optional<Time> began_;
  uint64_t began_with_ = 0;
  Time last_{};
  Time moved_{};
  uint64_t last_examples_ = 0;
};

}  // namespace downpour
