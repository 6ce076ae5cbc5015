// One optimizer step on one slice, the arithmetic that a parameter server spends its time on; and numbers as they
// travel.
//
//   AdamUpdate adam = MakeAdamUpdate(0.001, 0.9, 0.999, 1e-8, step);
//   Magnitudes bounds = kUnknownMagnitudes;         // of w, m and v; kept with them
//   bool applied = ApplyUpdate(adam, gradient, {{w, w_new}, {m, m}, {v, v_new}}, &bounds);
//
// Shapes: all arrays have gradient.size() elements, zero included; no alignment beyond that of float is needed (a
//   gradient may lie in a received frame), 64 bytes are best.
// Order: the same bits on every CPU, in place and out of place: each element takes the operations written beside its
//   rule, in that order, without fused multiply-add and without reassociation. Bound by memory, so this costs nothing.
//   Numbers below 2^-126 are 0 (tensor/flush_subnormals.h).
// Cost: one pass over memory. In place the gradient is checked before, so that nothing has to be undone; a slice's
//   gradient is small enough to still lie in cache then, and what was checked last is used first. That the results are
//   finite follows from bounds of the magnitudes; only where it does not (the first time, and close to overflow) they
//   are looked at, and what is updated in place takes a detour over other memory.
// Errors: none; false for a gradient that holds a NaN or an infinity, and for one that would make some value or slot
//   so, or so large that bfloat16 has it as infinite. Then arrays updated in place and bounds are unchanged, and the
//   contents of the others are unspecified (so drop them). Bounds change nothing about which it is.
// Threads: pure.
// Tests: tests/unit/tensor/apply_kernels_test.cc holds every CPU target against a scalar loop, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tensor/bf16.h"
#include "tensor/update.h"

namespace downpour {

// What a mean that began at 0 has of its whole weight after `step` updates: 1 - beta^step. Without libm's pow, whose
// last bit depends on the CPU.
double AdamCorrection(double beta, uint64_t step);

// `step` counts the updates of these values from 1, this one included. Computed in double, rounded once.
AdamUpdate MakeAdamUpdate(double learning_rate, double beta1, double beta2, double epsilon, uint64_t step);

// In place where `in` is `out`; else the two must not overlap.
struct UpdatedArray {
  const float* in = nullptr;
  float* out = nullptr;
  UpdatedArray From(size_t begin) const { return {in + begin, out + begin}; }
};

// A gradient as it came: floats or bfloat16.
class GradientSpan {
 public:
  GradientSpan(const float* numbers, size_t size) : floats_(numbers), size_(size) {}
  GradientSpan(absl::Span<const float> numbers) : GradientSpan(numbers.data(), numbers.size()) {}
  GradientSpan(absl::Span<const Bf16> numbers) : halves_(numbers.data()), size_(numbers.size()) {}

  size_t size() const { return size_; }
  bool rounded() const { return halves_ != nullptr; }
  absl::Span<const float> floats() const { return {floats_, size_}; }  // unless rounded()
  absl::Span<const Bf16> halves() const { return {halves_, size_}; }   // if rounded()
  GradientSpan subspan(size_t begin, size_t count) const {
    return rounded() ? GradientSpan(halves().subspan(begin, count)) : GradientSpan(floats().subspan(begin, count));
  }

 private:
  const float* floats_ = nullptr;
  const Bf16* halves_ = nullptr;
  size_t size_;
};

// `arrays` are the values, then the slots in the order in which the rule states them. CHECKs their number. `bounds` are
// theirs, before and after.
[[nodiscard]] bool ApplyUpdate(const Update& update, GradientSpan gradient, absl::Span<const UpdatedArray> arrays,
                               Magnitudes* bounds);
// The same with nothing known: every result is looked at.
[[nodiscard]] inline bool ApplyUpdate(const Update& update, GradientSpan gradient,
                                      absl::Span<const UpdatedArray> arrays) {
  Magnitudes unknown = kUnknownMagnitudes;
  return ApplyUpdate(update, gradient, arrays, &unknown);
}

// The step, of FTRL the gradient, without its correction: as many numbers as the gradient has. Without decay no values
// are read. Then a zero may have the other sign than in ApplyUpdate.
void FindStep(const SgdUpdate& update, GradientSpan gradient, absl::Span<const UpdatedArray> arrays, float* step);
void FindStep(const MomentumUpdate& update, GradientSpan gradient, absl::Span<const UpdatedArray> arrays, float* step);
void FindStep(const SquaresUpdate& update, GradientSpan gradient, absl::Span<const UpdatedArray> arrays, float* step);
void FindStep(const AdamUpdate& update, GradientSpan gradient, absl::Span<const UpdatedArray> arrays, float* step);
void FindStep(const FtrlUpdate& update, GradientSpan gradient, absl::Span<const UpdatedArray> arrays, float* step);

bool AllFinite(GradientSpan x);
float LargestMagnitude(GradientSpan x);  // infinity or NaN where it holds such

// bf16.h says how. `to` has as many elements, and does not overlap.
void RoundToBf16(absl::Span<const float> from, Bf16* to);
void WidenBf16(absl::Span<const Bf16> from, float* to);
// to = gradient + residual, rounded; residual = what the rounding left out, to go with the next one. Where some of `to`
// is not finite, so that no one will apply it, the residual stays what it was.
// Source: Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014, section 2.1: error feedback.
void RoundWithFeedback(absl::Span<const float> gradient, float* residual, Bf16* to);

// The CPU target chosen at run time, such as AVX3_DL; for people.
const char* CpuTargetName();

}  // namespace downpour
