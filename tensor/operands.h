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
// draws the same. The seed lies in the backend's memory, so that operations that are repeated can draw anew. Source:
// Threefry-2x32 with 13 rounds (Salmon et al., SC 2011); key = (low half of the seed, high half), counter = (row, c),
// where column c takes the first word and column c + (cols + 1) / 2 the second. An element is zeroed if its word is
// below floor(rate * 2^32).
struct DropoutMask {
  const uint64_t* seed = nullptr;
  double rate = 0;  // in [0, 1)
};

// Sums over examples, in the backend's memory; operations add to them.
struct BatchTotals {
  double loss = 0;
  uint64_t correct = 0;
};

}  // namespace downpour
