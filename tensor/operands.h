// What the operations of backend.h take beside matrices. Apart from it so that device compilers need read nothing else.
#pragma once

#include <cstdint>

namespace downpour {

enum class Transpose { kPlain, kTransposed };
enum class ActivationFunction { kRelu, kSigmoid, kTanh };

// How matrix products may round their factors; their sums, and everything else, are computed in 32 bits.
enum class Precision {
  kFp32,  // not at all
  kTf32,  // to 10 bits of mantissa
  kBf16,  // to 7 bits of mantissa
};

// Which elements survive: a pure function of (seed, row, column), so that a step computed again, on whatever device,
// draws the same. The seed lies in the backend's memory, so that operations that are repeated can draw again. Source:
// Threefry-2x32 with 13 rounds (Salmon et al., SC 2011); key = (low half of the seed, high half), counter = (row, c)
// for the columns c, c + q, c + 2 q and c + 3 q, where q is a quarter of them, rounded up: they take the low and the
// high half of the first word, then of the second. An element is zeroed if its 16 bits are below threshold().
struct DropoutMask {
  const uint64_t* seed = nullptr;
  double rate = 0;  // in [0, 1); counts in steps of 2^-16

  uint32_t threshold() const { return static_cast<uint32_t>(rate * 0x1p16); }
  float scale() const { return static_cast<float>(0x1p16 / (0x1p16 - threshold())); }  // of what is kept
};
constexpr int64_t DropoutQuarter(int64_t cols) { return (cols + 3) / 4; }

// Over what a loss is a mean: `examples` of them, those of its rows and maybe of other batches, each times its weight.
// The sum is divided by their number, not by the sum of weights: so means of batches and workers make one of all, and
// a batch of zeros has a gradient of 0.
struct WeightedMean {
  constexpr WeightedMean(int64_t of_examples, const float* of_rows = nullptr)  // so that a plain mean is its number
      : examples(of_examples), weights(of_rows) {}
  float WeightOf(int64_t row) const { return weights == nullptr ? 1 : weights[row]; }

  int64_t examples = 0;
  const float* weights = nullptr;  // of each row, in the backend's memory; null: all are 1
};

// Sums over examples, in the backend's memory; operations add to them.
struct BatchTotals {
  double loss = 0;
  uint64_t correct = 0;
};

}  // namespace downpour
