#include "chief/known/progress.h"

#include <cmath>
#include <limits>

namespace downpour {

void Progress::Begin(Time now, uint64_t examples_committed) {
  began_ = now;
  began_with_ = examples_committed;
  Commit(now, examples_committed);
}

void Progress::Commit(Time now, uint64_t examples_committed) {
  if (examples_committed < last_examples_) rate_ = RateWindow();  // leases were opened again
  last_ = now;
  Move(now);
  last_examples_ = examples_committed;
  rate_.Add(now, static_cast<double>(examples_committed));
}

// A standstill would make the rate of what follows look as slow for as long as it lasted, and the rest as long.
void Progress::Move(Time now) {
  if (began_ && StandsStill(now)) {
    rate_ = RateWindow();
    rate_.Add(now, static_cast<double>(last_examples_));
  }
  moved_ = std::max(moved_, now);
}

void Progress::ReportLoss(double loss_sum, double weight) {
  if (!std::isfinite(loss_sum)) {
    ++loss_totals_.not_finite;
    return;
  }
  if (weight == 0) return;
  loss_totals_.sum += loss_sum;
  loss_totals_.weight += weight;
  losses_.push_back({loss_sum, weight});
  if (losses_.size() > kLossReports) losses_.pop_front();
}

void Progress::NoteEpochs(uint64_t epochs) {
  if (epochs <= epochs_) return;
  epochs_ = epochs;
  epoch_loss_ = loss_totals_.MeanSince(epochs_totals_);
  epochs_totals_ = loss_totals_;
}

std::optional<double> Progress::EpochLoss() const {
  return epoch_loss_ && std::isfinite(*epoch_loss_) ? epoch_loss_ : std::nullopt;
}

std::optional<double> Progress::LossTotals::MeanSince(const LossTotals& before) const {
  if (not_finite > before.not_finite) return std::numeric_limits<double>::quiet_NaN();
  if (weight <= before.weight) return std::nullopt;
  return (sum - before.sum) / (weight - before.weight);
}

std::optional<double> Progress::MeanExamplesPerSecond() const {
  if (!began_ || last_ <= *began_ || last_examples_ <= began_with_) return std::nullopt;
  return (static_cast<double>(last_examples_) - static_cast<double>(began_with_)) / Seconds(last_ - *began_);
}

std::optional<double> Progress::RemainingSeconds(Time now, uint64_t examples_left) const {
  const double rate = ExamplesPerSecond(now);
  if (rate <= 0) return std::nullopt;
  return static_cast<double>(examples_left) / rate;
}

std::optional<double> Progress::Loss() const {
  double sum = 0;
  double weight = 0;
  for (const LossReport& report : losses_) {
    sum += report.sum;
    weight += report.weight;
  }
  const double loss = sum / weight;
  return std::isfinite(loss) ? std::optional(loss) : std::nullopt;
}

}  // namespace downpour
