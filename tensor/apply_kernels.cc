#include "tensor/apply_kernels.h"

#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/apply_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace downpour::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls step(d, i, g) for every vector g of the gradient, the rest one by one; says whether all of it was finite, if
// that is to be looked at.
template <bool kLook, class Step>
HWY_INLINE bool ForEachVector(absl::Span<const float> gradient, const Step& step) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::RebindToSigned<decltype(one)> one_i;
  constexpr int32_t kMagnitude = 0x7fffffff;
  constexpr int32_t kInfinity = 0x7f800000;

  const float* g = gradient.data();
  const size_t n = gradient.size();
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  auto largest = hn::Zero(di);
  for (; i + lanes <= n; i += lanes) {
    const auto vector = hn::LoadU(d, g + i);
    if constexpr (kLook) largest = hn::Max(largest, hn::And(hn::BitCast(di, vector), hn::Set(di, kMagnitude)));
    step(d, i, vector);
  }
  bool finite = hn::AllTrue(di, hn::Lt(largest, hn::Set(di, kInfinity)));
  for (; i < n; ++i) {
    const auto scalar = hn::LoadU(one, g + i);
    finite &= hn::GetLane(hn::And(hn::BitCast(one_i, scalar), hn::Set(one_i, kMagnitude))) < kInfinity;
    step(one, i, scalar);
  }
  return finite;
}

template <class Step>
HWY_INLINE bool ForEachVector(absl::Span<const float> gradient, bool look, const Step& step) {
  return look ? ForEachVector<true>(gradient, step) : ForEachVector<false>(gradient, step);
}

// Vectors begin where they are aligned: a received frame seldom is, and loads across two cache lines take twice as long.
bool Check(absl::Span<const float> x) {
  const size_t vector_bytes = hn::Lanes(hn::ScalableTag<float>()) * sizeof(float);
  const size_t past = reinterpret_cast<uintptr_t>(x.data()) % vector_bytes;
  const size_t head = std::min(x.size(), (vector_bytes - past) % vector_bytes / sizeof(float));
  const auto nothing = [](auto, size_t, auto) HWY_ATTR {};
  return ForEachVector<true>(x.subspan(0, head), nothing) && ForEachVector<true>(x.subspan(head), nothing);
}

bool Sgd(const SgdUpdate& update, absl::Span<const float> gradient, const UpdatedArray* arrays, bool look) {
  const float learning_rate = update.learning_rate;
  const UpdatedArray w = arrays[0];
  return ForEachVector(gradient, look, [=](auto d, size_t i, auto g) HWY_ATTR {
    hn::StoreU(hn::Sub(hn::LoadU(d, w.in + i), hn::Mul(hn::Set(d, learning_rate), g)), d, w.out + i);
  });
}

// Below, all loads stand before the first store: arrays that lie a multiple of 4 KiB apart look alike to a CPU that
// lets a load overtake a store.
bool Momentum(const MomentumUpdate& update, absl::Span<const float> gradient, const UpdatedArray* arrays, bool look) {
  const float learning_rate = update.learning_rate;
  const float momentum = update.momentum;
  const UpdatedArray w = arrays[0], v = arrays[1];
  return ForEachVector(gradient, look, [=](auto d, size_t i, auto g) HWY_ATTR {
    const auto velocity = hn::Add(hn::Mul(hn::Set(d, momentum), hn::LoadU(d, v.in + i)), g);
    const auto values = hn::Sub(hn::LoadU(d, w.in + i), hn::Mul(hn::Set(d, learning_rate), velocity));
    hn::StoreU(velocity, d, v.out + i);
    hn::StoreU(values, d, w.out + i);
  });
}

bool Adam(const AdamUpdate& update, absl::Span<const float> gradient, const UpdatedArray* arrays, bool look) {
  const AdamUpdate u = update;
  const UpdatedArray w = arrays[0], m = arrays[1], v = arrays[2];
  return ForEachVector(gradient, look, [=](auto d, size_t i, auto g) HWY_ATTR {
    const auto mean =
        hn::Add(hn::Mul(hn::Set(d, u.beta1), hn::LoadU(d, m.in + i)), hn::Mul(hn::Set(d, u.one_minus_beta1), g));
    const auto square = hn::Add(hn::Mul(hn::Set(d, u.beta2), hn::LoadU(d, v.in + i)),
                                hn::Mul(hn::Mul(hn::Set(d, u.one_minus_beta2), g), g));
    const auto change =
        hn::Div(hn::Mul(hn::Set(d, u.step_size), mean), hn::Add(hn::Sqrt(square), hn::Set(d, u.epsilon)));
    const auto values = hn::Sub(hn::LoadU(d, w.in + i), change);
    hn::StoreU(mean, d, m.out + i);
    hn::StoreU(square, d, v.out + i);
    hn::StoreU(values, d, w.out + i);
  });
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace downpour::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downpour {

HWY_EXPORT(Check);
HWY_EXPORT(Sgd);
HWY_EXPORT(Momentum);
HWY_EXPORT(Adam);
HWY_EXPORT(TargetName);

namespace {

// Elements. A block is some of the first cache, yet long enough to be fetched ahead.
constexpr size_t kSmallSlice = 32768;
constexpr size_t kBlock = 4096;
constexpr size_t kMostArrays = 3;  // the values and Adam's two slots

double Power(double base, uint64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if (exponent & 1) power *= base;
  }
  return power;
}

struct Dispatch {
  absl::Span<const float> gradient;
  const UpdatedArray* arrays;
  bool look;
  bool operator()(const SgdUpdate& update) const { return HWY_DYNAMIC_DISPATCH(Sgd)(update, gradient, arrays, look); }
  bool operator()(const MomentumUpdate& update) const {
    return HWY_DYNAMIC_DISPATCH(Momentum)(update, gradient, arrays, look);
  }
  bool operator()(const AdamUpdate& update) const { return HWY_DYNAMIC_DISPATCH(Adam)(update, gradient, arrays, look); }
};

}  // namespace

AdamUpdate MakeAdamUpdate(double learning_rate, double beta1, double beta2, double epsilon, uint64_t step) {
  const double second_correction = std::sqrt(1 - Power(beta2, step));
  AdamUpdate update;
  update.step_size = static_cast<float>(learning_rate * second_correction / (1 - Power(beta1, step)));
  update.beta1 = static_cast<float>(beta1);
  update.one_minus_beta1 = static_cast<float>(1 - beta1);
  update.beta2 = static_cast<float>(beta2);
  update.one_minus_beta2 = static_cast<float>(1 - beta2);
  update.epsilon = static_cast<float>(epsilon * second_correction);
  return update;
}

bool ApplyUpdate(const Update& update, absl::Span<const float> gradient, absl::Span<const UpdatedArray> arrays) {
  CHECK_EQ(arrays.size(), update.index() + 1);  // the rules stand in the order of their slots: none, one, two
  const bool in_place =
      std::any_of(arrays.begin(), arrays.end(), [](const UpdatedArray& array) { return array.in == array.out; });
  if (!in_place) return std::visit(Dispatch{gradient, arrays.data(), /*look=*/true}, update);
  if (!AllFinite(gradient)) return false;
  // A small slice from the end backwards: that part of its gradient is still in the first cache.
  const size_t block = gradient.size() <= kSmallSlice ? kBlock : gradient.size();
  for (size_t end = gradient.size(); end > 0;) {
    const size_t begin = (end - 1) / block * block;
    std::array<UpdatedArray, kMostArrays> parts;
    std::transform(arrays.begin(), arrays.end(), parts.begin(), [begin](const UpdatedArray& array) {
      return UpdatedArray{array.in + begin, array.out + begin};
    });
    std::visit(Dispatch{gradient.subspan(begin, end - begin), parts.data(), /*look=*/false}, update);
    end = begin;
  }
  return true;
}

bool AllFinite(absl::Span<const float> x) { return HWY_DYNAMIC_DISPATCH(Check)(x); }

const char* CpuTargetName() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace downpour
#endif  // HWY_ONCE
