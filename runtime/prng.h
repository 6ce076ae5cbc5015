// Reproducible random numbers: the same bits on every machine and every run.
//
// The standard library's distributions and absl::BitGen are not reproducible, so roles and simulator draw from here.
// Source: splitmix64 (Steele, Lea and Flood, OOPSLA 2014); bounded draws by multiply-shift with rejection (Lemire
//   2019).
// Tests: tests/unit/runtime/prng_test.cc.
#pragma once

#include <cstdint>

namespace downpour {

constexpr uint64_t Mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// A hash of a sequence of numbers; order matters.
template <typename... Numbers>
constexpr uint64_t MixAll(uint64_t first, Numbers... rest) {
  uint64_t state = Mix(first);
  ((state = Mix(state ^ static_cast<uint64_t>(rest))), ...);
  return state;
}

// A draw of U(-a, a), from 64 random bits and SymmetricUnit(a). Odd integers between -2^24 and 2^24 are exact floats,
// and symmetric about 0: one rounding, the product's.
inline float SymmetricUnit(double a) { return static_cast<float>(a * 0x1p-24); }
inline float Symmetric(uint64_t bits, float unit) {
  return static_cast<float>(2 * static_cast<int32_t>(bits >> 40) + 1 - (1 << 24)) * unit;
}

class Prng {
  __extension__ using Wide = unsigned __int128;

 public:
  explicit Prng(uint64_t seed) : state_(Mix(seed)) {}

  uint64_t Next() {
    const uint64_t out = Mix(state_);
    state_ += 0x9e3779b97f4a7c15u;
    return out;
  }

  // Uniform in [0, bound); bound > 0.
  uint64_t Below(uint64_t bound) {
    Wide product = static_cast<Wide>(Next()) * bound;
    if (static_cast<uint64_t>(product) < bound) {
      const uint64_t threshold = -bound % bound;
      while (static_cast<uint64_t>(product) < threshold) product = static_cast<Wide>(Next()) * bound;
    }
    return static_cast<uint64_t>(product >> 64);
  }

  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }  // in [0, 1)
  bool Chance(double probability) { return Uniform() < probability; }

 private:
  uint64_t state_;
};

}  // namespace downpour
