#include "worker/data/dataset.h"

#include <algorithm>
#include <cmath>

namespace downpour {
namespace {

// Fewer say too little of how frequent the classes are: the entropy of a sample is too small by (classes - 1) / (2
// examples) on the mean (Miller 1955), and one example of a rare class more or less changes it much.
constexpr double kLeastOfClass = 50;   // examples, on the mean
constexpr double kLeastOfOthers = 30;  // that are not of the most frequent class

}  // namespace

LabelSpread SpreadOf(absl::Span<const uint64_t> label_counts) {
  double all = 0, most = 0, classes = 0;
  for (const uint64_t count : label_counts) {
    const auto examples = static_cast<double>(count);
    all += examples;
    most = std::max(most, examples);
    classes += count > 0;
  }
  if (all < kLeastOfClass * classes || all - most < kLeastOfOthers) return {};
  LabelSpread spread{.largest = most / all};
  for (const uint64_t count : label_counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / all;
    spread.entropy -= share * std::log(share);
  }
  return spread;
}

}  // namespace downpour
