// What apply_kernels.h says of numbers as they travel: rounding, widening, and whether they are finite.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "tensor/apply_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/number_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "tensor/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downpour::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors begin where they are aligned: a received frame seldom is, and loads across cache lines take twice as long.
template <class T>
HWY_INLINE int32_t LargestAligned(absl::Span<const T> x) {
  const size_t vector_bytes = hn::Lanes(hn::ScalableTag<float>()) * sizeof(T);
  const size_t past = reinterpret_cast<uintptr_t>(x.data()) % vector_bytes;
  const size_t head = std::min(x.size(), (vector_bytes - past) % vector_bytes / sizeof(T));
  const auto nothing = [](auto, size_t, auto) HWY_ATTR {};
  return std::max(ForEachVector<true>(x.subspan(0, head), nothing), ForEachVector<true>(x.subspan(head), nothing));
}

int32_t Largest(const GradientSpan& x) { return x.rounded() ? LargestAligned(x.halves()) : LargestAligned(x.floats()); }

void Round(absl::Span<const float> from, Bf16* to) {
  ForEachVector<false>(from, [=](auto d, size_t i, auto x) HWY_ATTR { StoreRounded(d, x, to + i); });
}

void Widen(absl::Span<const Bf16> from, float* to) {
  ForEachVector<false>(from, [=](auto d, size_t i, auto x) HWY_ATTR { hn::StoreU(x, d, to + i); });
}

void RoundFed(absl::Span<const float> gradient, float* residual, Bf16* to) {
  ForEachVector<false>(gradient, [=](auto d, size_t i, auto g)
                                     HWY_ATTR { StoreRounded(d, hn::Add(g, hn::LoadU(d, residual + i)), to + i); });
  constexpr int32_t kInfinity = 0x7f800000;
  if (LargestAligned(absl::Span<const Bf16>(to, gradient.size())) >= kInfinity) return;
  ForEachVector<false>(gradient, [=](auto d, size_t i, auto g) HWY_ATTR {
    hn::StoreU(hn::Sub(hn::Add(g, hn::LoadU(d, residual + i)), LoadNumbers(d, to + i)), d, residual + i);
  });
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace downpour::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downpour {

HWY_EXPORT(Largest);
HWY_EXPORT(Round);
HWY_EXPORT(Widen);
HWY_EXPORT(RoundFed);
HWY_EXPORT(TargetName);

float LargestMagnitude(GradientSpan x) { return std::bit_cast<float>(HWY_DYNAMIC_DISPATCH(Largest)(x)); }
bool AllFinite(GradientSpan x) {
  constexpr int32_t kInfinity = 0x7f800000;
  return HWY_DYNAMIC_DISPATCH(Largest)(x) < kInfinity;
}

void RoundToBf16(absl::Span<const float> from, Bf16* to) { HWY_DYNAMIC_DISPATCH(Round)(from, to); }
void WidenBf16(absl::Span<const Bf16> from, float* to) { HWY_DYNAMIC_DISPATCH(Widen)(from, to); }
void RoundWithFeedback(absl::Span<const float> gradient, float* residual, Bf16* to) {
  HWY_DYNAMIC_DISPATCH(RoundFed)(gradient, residual, to);
}

const char* CpuTargetName() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace downpour
#endif  // HWY_ONCE
