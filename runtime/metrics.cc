#include "runtime/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "job/job_names.h"

namespace downpour {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeastShare = 1e-7;  // of a single output

constexpr size_t kOddsBins = 1024;
constexpr double kMostOdds = 16;  // log-odds beyond it fall into the last bin

constexpr size_t kConfidenceBins = 15;
constexpr size_t kOfConfidence = 3;  // numbers of a bin: examples, the sum of their confidence, those that are right

struct Example {
  absl::Span<const float> outputs;
  float label = 0;
  bool classes = false;  // else one output
  double weight = 1;     // above 0

  bool positive() const { return label >= 1; }
  bool has_nan() const {
    return std::any_of(outputs.begin(), outputs.end(), [](float output) { return std::isnan(output); });
  }
  double LogOfSum() const {  // of exp(outputs)
    const double most = *std::max_element(outputs.begin(), outputs.end());
    double sum = 0;
    for (const float output : outputs) sum += std::exp(output - most);
    return most + std::log(sum);
  }
  double ShareOfSingle() const { return std::clamp<double>(outputs[0], kLeastShare, 1 - kLeastShare); }
  double Odds() const {  // the log-odds of class 1
    if (classes) return static_cast<double>(outputs[1]) - outputs[0];
    return std::log(ShareOfSingle() / (1 - ShareOfSingle()));
  }
  double ShareOfClassOne() const { return classes ? 1 / (1 + std::exp(-Odds())) : ShareOfSingle(); }
  double LogLoss() const {
    if (classes) return LogOfSum() - outputs[static_cast<size_t>(label)];
    return -std::log(positive() ? ShareOfSingle() : 1 - ShareOfSingle());
  }
  // How many outputs come before the label's.
  int64_t Rank() const {
    const auto own = static_cast<size_t>(label);
    int64_t before = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      before += outputs[i] > outputs[own] || (i < own && outputs[i] == outputs[own]);
    }
    return before;
  }
};

// `share` is at least 0 and no NaN.
size_t BinOf(double share, size_t bins) {
  return share >= 1 ? bins - 1 : static_cast<size_t>(share * static_cast<double>(bins));
}

size_t SumsOf(const MetricSpec& metric) {
  switch (metric.kind) {
    case MetricKind::kTopK:
    case MetricKind::kLogLoss:
    case MetricKind::kRmse:
    case MetricKind::kMean:
      return 1;
    case MetricKind::kAuc:
      return 2 * kOddsBins;
    case MetricKind::kCalibration:
    case MetricKind::kRatio:
      return 2;
    case MetricKind::kCalibrationError:
      return kConfidenceBins * kOfConfidence;
  }
  return 0;
}

void AddConfidence(const Example& example, absl::Span<double> sums) {
  const double most = *std::max_element(example.outputs.begin(), example.outputs.end());
  const double confidence = std::exp(most - example.LogOfSum());
  if (std::isnan(confidence)) {  // of two outputs that are infinite
    sums[0] = kUndefined;
    return;
  }
  double* bin = &sums[BinOf(confidence, kConfidenceBins) * kOfConfidence];
  bin[0] += example.weight;
  bin[1] += example.weight * confidence;
  bin[2] += example.weight * (example.Rank() == 0);
}

void AddOdds(const Example& example, absl::Span<double> sums) {
  const double odds = example.Odds();
  if (std::isnan(odds)) {
    sums[0] = kUndefined;
    return;
  }
  const double share = std::clamp((odds + kMostOdds) / (2 * kMostOdds), 0.0, 1.0);
  sums[BinOf(share, kOddsBins) + (example.positive() ? kOddsBins : 0)] += example.weight;
}

void Add(const MetricSpec& metric, const Example& example, absl::Span<double> sums) {
  if (example.has_nan()) {
    if (metric.kind != MetricKind::kTopK) sums[0] = kUndefined;  // where there is no order, nothing is among the first
    return;
  }
  switch (metric.kind) {
    case MetricKind::kTopK:
      sums[0] += example.weight * (example.Rank() < metric.k);
      return;
    case MetricKind::kLogLoss:
      sums[0] += example.weight * example.LogLoss();
      return;
    case MetricKind::kRmse: {
      const double distance = static_cast<double>(example.outputs[0]) - example.label;
      sums[0] += example.weight * distance * distance;
      return;
    }
    case MetricKind::kAuc:
      return AddOdds(example, sums);
    case MetricKind::kCalibration:
      sums[0] += example.weight * example.ShareOfClassOne();
      sums[1] += example.weight * example.positive();
      return;
    case MetricKind::kCalibrationError:
      return AddConfidence(example, sums);
    case MetricKind::kMean:  // whose code computes them, sums them up
    case MetricKind::kRatio:
      return;
  }
}

double AreaOf(absl::Span<const double> sums) {
  const auto negatives = sums.subspan(0, kOddsBins), positives = sums.subspan(kOddsBins);
  double below = 0, pairs = 0, of_positive = 0;
  for (size_t bin = 0; bin < kOddsBins; ++bin) {
    pairs += positives[bin] * (below + negatives[bin] / 2);
    below += negatives[bin];
    of_positive += positives[bin];
  }
  return pairs / (below * of_positive);
}

double CalibrationErrorOf(absl::Span<const double> sums, double weight) {
  double distance = 0;
  for (size_t bin = 0; bin < kConfidenceBins; ++bin) {
    const auto of = sums.subspan(bin * kOfConfidence, kOfConfidence);
    distance += std::abs(of[1] - of[2]) + (std::isnan(of[0]) ? kUndefined : 0);
  }
  return distance / weight;
}

double ValueOf(const MetricSpec& metric, absl::Span<const double> sums, double weight) {
  switch (metric.kind) {
    case MetricKind::kTopK:
    case MetricKind::kLogLoss:
    case MetricKind::kMean:
      return sums[0] / weight;
    case MetricKind::kRmse:
      return std::sqrt(sums[0] / weight);
    case MetricKind::kAuc:
      return AreaOf(sums);
    case MetricKind::kCalibration:
    case MetricKind::kRatio:
      return sums[1] > 0 ? sums[0] / sums[1] : kUndefined;
    case MetricKind::kCalibrationError:
      return CalibrationErrorOf(sums, weight);
  }
  return kUndefined;
}

// Python code's own accuracy stands in the place of the job's.
bool MoreIsBetter(const MetricSpec& metric) {
  switch (metric.kind) {
    case MetricKind::kTopK:
    case MetricKind::kAuc:
      return true;
    case MetricKind::kMean:
    case MetricKind::kRatio:
      return metric.better == Better::kMore || metric.name == "accuracy";
    default:
      return false;
  }
}

}  // namespace

size_t CountMetricSums(const std::vector<MetricSpec>& metrics) {
  size_t sums = 0;
  for (const MetricSpec& metric : metrics) sums += SumsOf(metric);
  return sums;
}

void AddMetricSums(const std::vector<MetricSpec>& metrics, Loss loss, absl::Span<const float> outputs,
                   absl::Span<const float> labels, absl::Span<const double> weights, absl::Span<double> sums) {
  const bool classes = loss == Loss::kSoftmaxCrossEntropy;
  const size_t width = labels.empty() ? 0 : outputs.size() / labels.size();
  size_t first = 0;
  for (const MetricSpec& metric : metrics) {
    const auto own = sums.subspan(first, SumsOf(metric));
    for (size_t i = 0; i < labels.size(); ++i) {
      const double weight = weights.empty() ? 1 : weights[i];
      if (weight > 0) Add(metric, {outputs.subspan(i * width, width), labels[i], classes, weight}, own);
    }
    first += own.size();
  }
}

double WeightOfRight(absl::Span<const float> outputs, absl::Span<const float> labels,
                     absl::Span<const double> weights) {
  const size_t width = labels.empty() ? 0 : outputs.size() / labels.size();
  double right = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const Example example{outputs.subspan(i * width, width), labels[i]};
    const bool is_right =
        width == 1 ? std::fabs(outputs[i] - labels[i]) < 0.5f : !example.has_nan() && example.Rank() == 0;
    if (is_right) right += weights.empty() ? 1 : weights[i];
  }
  return right;
}

double Shortfall(const std::vector<MetricSpec>& metrics, const std::string& name, double value) {
  const auto metric = std::find_if(metrics.begin(), metrics.end(), [&](const auto& m) { return NameOf(m) == name; });
  if (metric == metrics.end()) return name == "accuracy" ? 1 - value : value;
  if (metric->kind == MetricKind::kCalibration) return std::abs(value - 1);
  return MoreIsBetter(*metric) ? 1 - value : value;
}

std::vector<std::pair<std::string, double>> MetricValues(const std::vector<MetricSpec>& metrics,
                                                         absl::Span<const double> sums, double weight) {
  std::vector<std::pair<std::string, double>> values;
  size_t first = 0;
  for (const MetricSpec& metric : metrics) {
    values.emplace_back(NameOf(metric), ValueOf(metric, sums.subspan(first, SumsOf(metric)), weight));
    first += SumsOf(metric);
  }
  return values;
}

}  // namespace downpour
