#include "data/dataset.h"

#include <algorithm>
#include <cmath>

namespace downpour {
namespace {

// Fewer say too little of how frequent the classes are: the entropy of a sample is too small by (classes - 1) / (2
// examples) on the mean (Miller 1955), and one example of a rare class more or less changes it much.
constexpr double kLeastOfClass = 50;   // examples, on the mean
constexpr double kLeastOfOthers = 30;  // that are not of the most frequent class

// Where each output is to be 1 for its label and 0 for the others, a squared error has the mean of their variances.
double LossOfShare(double share, Loss loss, int64_t outputs) {
  if (loss == Loss::kMeanSquaredError) return share * (1 - share) / static_cast<double>(outputs);
  return share > 0 ? -share * std::log(share) : 0;
}

// Their mean has their variance as its mean squared error.
Guess OfNumbers(absl::Span<const uint64_t> counts, double all) {
  double mean = 0, variance = 0;
  for (size_t label = 0; label < counts.size(); ++label) {
    mean += static_cast<double>(label) * (static_cast<double>(counts[label]) / all);
  }
  for (size_t label = 0; label < counts.size(); ++label) {
    const double beside = static_cast<double>(label) - mean;
    variance += beside * beside * (static_cast<double>(counts[label]) / all);
  }
  return {.loss = variance};
}

}  // namespace

Guess GuessOf(absl::Span<const uint64_t> label_counts, Loss loss, int64_t outputs) {
  double all = 0, most = 0, labels = 0;
  for (const uint64_t count : label_counts) {
    const auto examples = static_cast<double>(count);
    all += examples;
    most = std::max(most, examples);
    labels += count > 0;
  }
  if (all - most < kLeastOfOthers) return {};
  if (loss == Loss::kMeanSquaredError && outputs == 1) return OfNumbers(label_counts, all);
  if (loss == Loss::kOwn || all < kLeastOfClass * labels) return {};
  Guess guess{.accuracy = most / all};
  for (const uint64_t count : label_counts) guess.loss += LossOfShare(static_cast<double>(count) / all, loss, outputs);
  return guess;
}

}  // namespace downpour
