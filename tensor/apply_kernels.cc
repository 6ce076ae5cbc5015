#include "tensor/apply_kernels.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/apply_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace downpour::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls step(d, i, g) for every vector g of the gradient, the rest one by one; says whether all of it was finite.
template <class Step>
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
    largest = hn::Max(largest, hn::And(hn::BitCast(di, vector), hn::Set(di, kMagnitude)));
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

bool Check(absl::Span<const float> x) {
  return ForEachVector(x, [](auto, size_t, auto) HWY_ATTR {});
}

bool Sgd(const SgdUpdate& update, absl::Span<const float> gradient, const UpdatedArray* arrays) {
  const float learning_rate = update.learning_rate;
  const UpdatedArray w = arrays[0];
  return ForEachVector(gradient, [=](auto d, size_t i, auto g) HWY_ATTR {
    hn::StoreU(hn::Sub(hn::LoadU(d, w.in + i), hn::Mul(hn::Set(d, learning_rate), g)), d, w.out + i);
  });
}

bool Momentum(const MomentumUpdate& update, absl::Span<const float> gradient, const UpdatedArray* arrays) {
  const float learning_rate = update.learning_rate;
  const float momentum = update.momentum;
  const UpdatedArray w = arrays[0], v = arrays[1];
  return ForEachVector(gradient, [=](auto d, size_t i, auto g) HWY_ATTR {
    const auto velocity = hn::Add(hn::Mul(hn::Set(d, momentum), hn::LoadU(d, v.in + i)), g);
    hn::StoreU(velocity, d, v.out + i);
    hn::StoreU(hn::Sub(hn::LoadU(d, w.in + i), hn::Mul(hn::Set(d, learning_rate), velocity)), d, w.out + i);
  });
}

bool Adam(const AdamUpdate& update, absl::Span<const float> gradient, const UpdatedArray* arrays) {
  const AdamUpdate u = update;
  const UpdatedArray w = arrays[0], m = arrays[1], v = arrays[2];
  return ForEachVector(gradient, [=](auto d, size_t i, auto g) HWY_ATTR {
    const auto mean =
        hn::Add(hn::Mul(hn::Set(d, u.beta1), hn::LoadU(d, m.in + i)), hn::Mul(hn::Set(d, u.one_minus_beta1), g));
    const auto square = hn::Add(hn::Mul(hn::Set(d, u.beta2), hn::LoadU(d, v.in + i)),
                                hn::Mul(hn::Mul(hn::Set(d, u.one_minus_beta2), g), g));
    hn::StoreU(mean, d, m.out + i);
    hn::StoreU(square, d, v.out + i);
    const auto change =
        hn::Div(hn::Mul(hn::Set(d, u.step_size), mean), hn::Add(hn::Sqrt(square), hn::Set(d, u.epsilon)));
    hn::StoreU(hn::Sub(hn::LoadU(d, w.in + i), change), d, w.out + i);
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
  bool operator()(const SgdUpdate& update) const { return HWY_DYNAMIC_DISPATCH(Sgd)(update, gradient, arrays); }
  bool operator()(const MomentumUpdate& update) const {
    return HWY_DYNAMIC_DISPATCH(Momentum)(update, gradient, arrays);
  }
  bool operator()(const AdamUpdate& update) const { return HWY_DYNAMIC_DISPATCH(Adam)(update, gradient, arrays); }
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
  if (in_place && !AllFinite(gradient)) return false;
  return std::visit(Dispatch{gradient, arrays.data()}, update);
}

bool AllFinite(absl::Span<const float> x) { return HWY_DYNAMIC_DISPATCH(Check)(x); }

const char* CpuTargetName() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace downpour
#endif  // HWY_ONCE
