#include "model/gradient_clip.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace downpour {
namespace {

template <typename Change>
void Replace(Payload& gradient, const Change& change) {
  if (!gradient.unique()) gradient = Payload::CopyOf(gradient.data(), gradient.size());
  for (float& g : gradient.mutable_floats()) g = change(g);
}

// Several sums at once: a single one would wait for each addition.
double SumOfSquares(absl::Span<const float> numbers) {
  std::array<double, 8> sums{};
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<double>(numbers[i]);
    sums[i % sums.size()] += number * number;
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

void GradientClip::Apply(VariableGradients* gradients) const {
  if (value_ > 0) {
    const auto most = static_cast<float>(value_);
    for (auto& [variable, gradient] : *gradients) {
      Replace(gradient, [most](float g) { return std::clamp(g, -most, most); });
    }
  }
  if (norm_ == 0) return;
  double squares = 0;
  for (const auto& [variable, gradient] : *gradients) squares += SumOfSquares(gradient.floats());
  const double norm = std::sqrt(squares);
  double factor = norm_ / (norm + 1e-6);  // torch's margin against a division by zero
  if (factor >= 1) return;
  if (!std::isfinite(norm)) factor = std::numeric_limits<double>::quiet_NaN();
  for (auto& [variable, gradient] : *gradients) {
    Replace(gradient, [scale = static_cast<float>(factor)](float g) { return g * scale; });
  }
}

}  // namespace downpour
