// Less of a step along the direction in which it is largest, or more of it beside several of them.
//
//   Deflation deflation;
//   const auto compute = [&](size_t begin, absl::Span<float> part) { ... };  // what the rule is to subtract
//   update.correction = deflation.Find({.columns = 256, .lead = 16}, {.least = 1.0f / 16}, compute, room_for_step);
//   ScaleRemainder({.columns = 256}, /*directions=*/4, /*factor=*/8, absl::MakeSpan(difference));
//
// Where the inputs of a layer have a mean that is not 0, the loss is far steeper along that mean than along anything
// else, and the gradients of a layer's kernel are large along it: input times error. Of a sum of gradients it is the
// part of rank one that is closest. No layout is asked for: with inputs in rows or in columns it is the same part.
//
// Result: A - (1 - keep) P, where P = u (u^T A) / |u|^2 and u = A c, and c comes by power iteration from the row of A
//   that is largest (Golub and Van Loan, "Matrix Computations", section 8.2). `keep` is |A - P|^2 / |P|^2 within
//   bounds: P counts in full where it has no more than half of A's squares, and less the more it outweighs the rest. A
//   stays as it is where P is 0 or squares are no finite floats. Find returns what is to be added to A for that. Of
//   several directions each is the largest of what those before it leave, by the same iteration. ScaleRemainder
//   multiplies by `factor` what all of them leave.
// Shapes: A is a run of a matrix's row-major elements, so that its first and its last row may be parts of rows.
// Order: the same bits on every CPU: sums have 16 parts, by the place modulo 16, that are added pairwise at last;
//   products are rounded before they are added. Squares of rows are added in double, in their order.
// Cost: Find takes kRounds passes over A beside that which computes it, four rows at a time. ScaleRemainder takes two
//   more for each direction. A slice lies in cache. (rows + 2 columns) floats of memory, and for ScaleRemainder as many
//   more as A has.
// Threads: pure.
// Tests: tests/unit/tensor/deflation_test.cc.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "tensor/rank_one.h"

namespace downpour {

// Of P: as much as |A - P|^2 / |P|^2 says, but within these. least <= most.
struct KeptShare {
  float least = 1;
  float most = 1;
};

// Keeps its memory from one step to the next.
class Deflation {
 public:
  // Computes A's elements from `begin` on.
  using Compute = absl::FunctionRef<void(size_t begin, absl::Span<float> part)>;

  // What Deflate adds to the step, which `compute` fills. Valid until the next call.
  RankOne Find(const MatrixRun& run, const KeptShare& keep, Compute compute, absl::Span<float> step);

 private:
  std::vector<float> left_, right_, sums_;
};

void Deflate(const MatrixRun& run, float keep, absl::Span<float> step);
void ScaleRemainder(const MatrixRun& run, size_t directions, float factor, absl::Span<float> step);

}  // namespace downpour
