// Several measurements of one thing: their median and spread, as the benchmarks print them.
#pragma once

#include <algorithm>
#include <vector>

namespace downpour {

struct Series {
  std::vector<double> values;

  double Median() const {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  double Smallest() const { return *std::min_element(values.begin(), values.end()); }
  double Largest() const { return *std::max_element(values.begin(), values.end()); }
};

}  // namespace downpour
