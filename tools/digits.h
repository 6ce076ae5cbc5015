// A drawn stand-in for handwritten digits: seeded, the same bytes every time and on every machine.
//
// Shapes: images of 28x28 unsigned bytes, ink bright on dark, as MNIST has them; labels 0 to 9 in random order.
// Order: image i is a pure function of (seed, i), by operations that IEEE 754 rounds correctly (+ - * / sqrt).
// Difficulty: a few smooth strokes whose points are moved, then shifted, rotated, sheared and scaled, drawn with a
//   random pen over speckles; a linear model stays below 93 %, an MLP goes above 97 % (docs/PERFORMANCE.md). Hard ones
//   are bent more, and faint on speckles of their own brightness: an MLP stays below 90 % (docs/LEARNING.md).
// Tests: tests/unit/tools/digits_test.cc.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace downpour {

inline constexpr int kDigitSide = 28;

enum class Difficulty { kUsual, kHard };

// Draws image `index` into 784 bytes and returns its label.
uint8_t DrawDigit(uint64_t seed, uint64_t index, Difficulty difficulty, uint8_t* pixels);

// Writes train-images-idx3-ubyte, train-labels-idx1-ubyte (60,000), t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte
// (10,000) into `folder`, which is made if need be, and beside them job.yaml, a job that trains on them, unless it is
// there.
absl::Status WriteDigits(const std::string& folder, uint64_t seed, Difficulty difficulty);

// That job: deploy/jobs/digits-mlp.yaml, with the paths that it has beside these four files.
const char* DigitsJob();

}  // namespace downpour
