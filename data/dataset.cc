#include "data/dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

constexpr uint64_t kReadAtOnce = uint64_t{1} << 16;  // examples

// Fewer say too little of how frequent the classes are: the entropy of a sample is too small by (classes - 1) / (2
// examples) on the mean (Miller 1955), and one example of a rare class more or less changes it much.
constexpr double kLeastOfClass = 50;   // examples, on the mean
constexpr double kLeastOfOthers = 30;  // that are not of the most frequent class

double Entropy(double share) { return share > 0 ? -share * std::log(share) : 0; }

// Where each output is to be 1 for its label and 0 for the others, a squared error has the mean of their variances, and
// sigmoids that of their entropies. A single sigmoid has the entropy of two classes.
double LossOfShare(double share, Loss loss, int64_t outputs) {
  if (loss == Loss::kMeanSquaredError) return share * (1 - share) / static_cast<double>(outputs);
  const bool is_each = loss == Loss::kSigmoidCrossEntropy && outputs > 1;
  return is_each ? (Entropy(share) + Entropy(1 - share)) / static_cast<double>(outputs) : Entropy(share);
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

std::optional<size_t> FindColumn(const Dataset& data, std::string_view name) {
  const std::vector<Column>& columns = data.columns();
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const Column& one) { return one.name == name; });
  if (found == columns.end()) return std::nullopt;
  return static_cast<size_t>(found - columns.begin());
}

absl::StatusOr<std::vector<uint64_t>> CountLabels(const Dataset& data, size_t column, uint64_t most) {
  std::vector<uint64_t> counts;
  std::vector<uint64_t> ids;
  ColumnValues values;
  for (uint64_t first = 0; first < data.size(); first += ids.size()) {
    ids.resize(std::min(kReadAtOnce, data.size() - first));
    std::iota(ids.begin(), ids.end(), first);
    if (absl::Status read = data.ReadBatch(ids, {&column, 1}, {&values, 1}); !read.ok()) return read;
    const auto& labels = std::get<std::vector<int64_t>>(values);
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] < 0 || static_cast<uint64_t>(labels[i]) >= most) {
        return absl::InvalidArgumentError(
            absl::StrCat("example ", ids[i], " has the label ", labels[i], ", which is no class from 0 to ", most - 1));
      }
      const auto label = static_cast<size_t>(labels[i]);
      if (label >= counts.size()) counts.resize(label + 1);
      ++counts[label];
    }
  }
  return counts;
}

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
