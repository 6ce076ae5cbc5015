#include "runtime/initial_values.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/prng.h"

namespace downpour {
namespace {

constexpr uint64_t kInitialStream = 3;  // apart from the plan's draws, which use the same seed

uint64_t HashOf(const std::string& name) {
  uint64_t hash = Mix(name.size());
  for (char c : name) hash = Mix(hash ^ static_cast<unsigned char>(c));
  return hash;
}

// The a of U(-a, a).
double HalfWidth(const VariableSpec& variable) {
  switch (variable.initializer) {
    case Initializer::kZeros:
      return 0;
    case Initializer::kGlorotUniform:
      return std::sqrt(6.0 / static_cast<double>(variable.fan_in + variable.fan_out));
    case Initializer::kHeUniform:
      return std::sqrt(6.0 / static_cast<double>(variable.fan_in));
  }
  return 0;
}

}  // namespace

void InitialValues(uint64_t seed, const SliceGrid& grid, SliceId slice, float* values) {
  const Slice& where = grid.at(slice);
  const VariableSpec& variable = grid.variables[where.variable];
  if (variable.initializer == Initializer::kZeros) {
    std::fill_n(values, where.elements, 0.0f);
    return;
  }
  const float unit = SymmetricUnit(HalfWidth(variable));
  const uint64_t key = MixAll(seed, kInitialStream, HashOf(variable.name));
  for (int64_t i = 0; i < where.elements; ++i) {
    values[i] = Symmetric(Mix(key ^ static_cast<uint64_t>(where.offset + i)), unit);
  }
}

}  // namespace downpour
