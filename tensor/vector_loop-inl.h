// VectorLoop: visits floats, or bfloat16 as floats, a vector at a time, and stores them as either; for each of
// Highway's targets.
//
//   ForEachVector(gradient, /*look=*/false, [=](auto d, size_t i, auto x) HWY_ATTR { ... });
//
// Included once for each target, behind hwy/foreach_target.h and hwy/highway.h.
// Tests: tests/unit/tensor/apply_kernels_test.cc, tests/unit/tensor/bf16_test.cc.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tensor/bf16.h"

#if defined(DOWNPOUR_TENSOR_VECTOR_LOOP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DOWNPOUR_TENSOR_VECTOR_LOOP_INL_H
#undef DOWNPOUR_TENSOR_VECTOR_LOOP_INL_H
#else
#define DOWNPOUR_TENSOR_VECTOR_LOOP_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace downpour::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> LoadNumbers(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadNumbers(D d, const Bf16* from) {
  const hn::Rebind<uint16_t, D> half;
  const hn::RebindToUnsigned<D> whole;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(whole, hn::LoadU(half, &from->bits))));
}

template <class D>
HWY_INLINE void StoreRounded(D, hn::Vec<D> x, Bf16* to) {
  const hn::RebindToUnsigned<D> whole;
  const hn::RebindToSigned<D> with_sign;  // from which narrowing is defined; what is narrowed is below 2^16
  const hn::Rebind<uint16_t, D> half;
  const auto bits = hn::BitCast(whole, x);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(whole, 1));
  const auto nearest = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(whole, 0x7fff))));
  const auto quiet = hn::Or(upper, hn::Set(whole, 0x40));
  const auto rounded = hn::IfThenElse(hn::RebindMask(whole, hn::IsNaN(x)), quiet, nearest);
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(with_sign, rounded)), half, &to->bits);
}

// Calls step(d, i, x) for every vector x of the numbers, the rest one by one. Returns the bits of the largest
// magnitude, if that is to be looked at: they are in the order of magnitudes, with infinity and NaN above all.
template <bool kLook, class T, class Step>
HWY_INLINE int32_t ForEachVector(absl::Span<const T> numbers, const Step& step) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::RebindToSigned<decltype(one)> one_i;
  constexpr int32_t kMagnitude = 0x7fffffff;

  const T* from = numbers.data();
  const size_t n = numbers.size();
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  auto largest = hn::Zero(di);
  for (; i + lanes <= n; i += lanes) {
    const auto vector = LoadNumbers(d, from + i);
    if constexpr (kLook) largest = hn::Max(largest, hn::And(hn::BitCast(di, vector), hn::Set(di, kMagnitude)));
    step(d, i, vector);
  }
  int32_t of_all = hn::GetLane(hn::MaxOfLanes(di, largest));
  for (; i < n; ++i) {
    const auto scalar = LoadNumbers(one, from + i);
    of_all = std::max(of_all, hn::GetLane(hn::And(hn::BitCast(one_i, scalar), hn::Set(one_i, kMagnitude))));
    step(one, i, scalar);
  }
  return of_all;
}

template <class Step>
HWY_INLINE int32_t ForEachVector(const GradientSpan& gradient, bool look, const Step& step) {
  if (gradient.rounded()) {
    return look ? ForEachVector<true>(gradient.halves(), step) : ForEachVector<false>(gradient.halves(), step);
  }
  return look ? ForEachVector<true>(gradient.floats(), step) : ForEachVector<false>(gradient.floats(), step);
}

}  // namespace downpour::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
