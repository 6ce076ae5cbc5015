#include "tensor/apply_kernels.h"

#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "tensor/apply_bounds.h"
#include "tensor/flush_subnormals.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/apply_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "tensor/update_rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downpour::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void PenalizedGradient(float decay, const GradientSpan& gradient, const UpdatedArray* arrays, float* step) {
  const UpdatedArray w = arrays[0];
  ForEachVector(gradient, /*look=*/false, [=](auto d, size_t i, auto pushed) HWY_ATTR {
    hn::StoreU(decay == 0 ? pushed : Penalized(d, pushed, hn::LoadU(d, w.in + i), decay), d, step + i);
  });
}

void MomentumStep(const MomentumUpdate& update, const GradientSpan& gradient, const UpdatedArray* arrays, float* step) {
  const MomentumUpdate u = update;
  const UpdatedArray v = arrays[1];
  const UpdatedArray w = u.decay == 0 ? v : arrays[0];  // one array less to read; both are finite
  ForEachVector(gradient, /*look=*/false, [=](auto d, size_t i, auto pushed) HWY_ATTR {
    const auto g = Penalized(d, pushed, hn::LoadU(d, w.in + i), u.decay);
    hn::StoreU(Step(d, u, Velocity(d, u, hn::LoadU(d, v.in + i), g), g), d, step + i);
  });
}

// Calls apply(part, begin, correct) for the parts of the gradient that have one correction each: correct(d, i, x) adds
// it to the vector x of the part's steps from i on.
template <class Apply>
HWY_INLINE int32_t ForEachCorrected(const RankOne& correction, const GradientSpan& gradient, const Apply& apply) {
  if (correction.left == nullptr) {
    return apply(gradient, 0, [](auto, size_t, auto step) HWY_ATTR { return step; });
  }
  int32_t largest = 0;
  ForEachRows(correction.run, gradient.size(), 1, [&](const Rows& row) HWY_ATTR {
    const float left = correction.left[row.index];
    const float* const right = correction.right + row.column;
    const auto correct = [=](auto d, size_t i, auto step)
                             HWY_ATTR { return hn::Add(step, hn::Mul(hn::Set(d, left), hn::LoadU(d, right + i))); };
    largest = std::max(largest, apply(gradient.subspan(row.begin, row.size), row.begin, correct));
  });
  return largest;
}

int32_t Sgd(const SgdUpdate& update, const GradientSpan& gradient, const UpdatedArray* arrays, bool look) {
  const SgdUpdate u = update;
  const UpdatedArray w = arrays[0];
  return ForEachCorrected(u.correction, gradient, [&](const GradientSpan& part, size_t begin, auto correct) HWY_ATTR {
    return CorrectedSgd(u, part, w.From(begin), look, correct);
  });
}

int32_t Momentum(const MomentumUpdate& update, const GradientSpan& gradient, const UpdatedArray* arrays, bool look) {
  const MomentumUpdate u = update;
  const UpdatedArray w = arrays[0], v = arrays[1];
  return ForEachCorrected(u.correction, gradient, [&](const GradientSpan& part, size_t begin, auto correct) HWY_ATTR {
    return CorrectedMomentum(u, part, w.From(begin), v.From(begin), look, correct);
  });
}

void SquaresStep(const SquaresUpdate& update, const GradientSpan& gradient, const UpdatedArray* arrays, float* step) {
  const SquaresUpdate u = update;
  const UpdatedArray s = arrays[1];
  const UpdatedArray w = u.decay == 0 ? s : arrays[0];
  ForEachVector(gradient, /*look=*/false, [=](auto d, size_t i, auto pushed) HWY_ATTR {
    const auto g = Penalized(d, pushed, hn::LoadU(d, w.in + i), u.decay);
    hn::StoreU(Step(d, u, SumOfSquares(d, u, hn::LoadU(d, s.in + i), g), g), d, step + i);
  });
}

int32_t Squares(const SquaresUpdate& update, const GradientSpan& gradient, const UpdatedArray* arrays, bool look) {
  const SquaresUpdate u = update;
  const UpdatedArray w = arrays[0], s = arrays[1];
  return ForEachCorrected(u.correction, gradient, [&](const GradientSpan& part, size_t begin, auto correct) HWY_ATTR {
    return CorrectedSquares(u, part, w.From(begin), s.From(begin), look, correct);
  });
}

void AdamStep(const AdamUpdate& update, const GradientSpan& gradient, const UpdatedArray* arrays, float* step) {
  const AdamUpdate u = update;
  const UpdatedArray m = arrays[1], v = arrays[2];
  const UpdatedArray w = u.decay == 0 ? m : arrays[0];
  ForEachVector(gradient, /*look=*/false, [=](auto d, size_t i, auto pushed) HWY_ATTR {
    const auto g = Penalized(d, pushed, hn::LoadU(d, w.in + i), u.decay);
    const auto mean = Mean(d, u, hn::LoadU(d, m.in + i), g);
    hn::StoreU(Step(d, u, mean, MeanSquare(d, u, hn::LoadU(d, v.in + i), g), g), d, step + i);
  });
}

int32_t Adam(const AdamUpdate& update, const GradientSpan& gradient, const UpdatedArray* arrays, bool look) {
  const AdamUpdate u = update;
  const UpdatedArray w = arrays[0], m = arrays[1], v = arrays[2];
  return ForEachCorrected(u.correction, gradient, [&](const GradientSpan& part, size_t begin, auto correct) HWY_ATTR {
    return CorrectedAdam(u, part, w.From(begin), m.From(begin), v.From(begin), look, correct);
  });
}

int32_t Ftrl(const FtrlUpdate& update, const GradientSpan& gradient, const UpdatedArray* arrays, bool look) {
  const FtrlUpdate u = update;
  const UpdatedArray w = arrays[0], z = arrays[1], n = arrays[2];
  return ForEachCorrected(u.correction, gradient, [&](const GradientSpan& part, size_t begin, auto correct) HWY_ATTR {
    return CorrectedFtrl(u, part, w.From(begin), z.From(begin), n.From(begin), look, correct);
  });
}

}  // namespace downpour::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downpour {

HWY_EXPORT(Sgd);
HWY_EXPORT(PenalizedGradient);
HWY_EXPORT(Momentum);
HWY_EXPORT(MomentumStep);
HWY_EXPORT(Squares);
HWY_EXPORT(SquaresStep);
HWY_EXPORT(Adam);
HWY_EXPORT(AdamStep);
HWY_EXPORT(Ftrl);

namespace {

// Elements. A block is some of the first cache, yet long enough to be fetched ahead.
constexpr size_t kSmallSlice = 32768;
constexpr size_t kBlock = 4096;

// Bits of magnitudes: infinity, and the least that bfloat16 rounds to infinity.
constexpr int32_t kInfinity = 0x7f800000;
constexpr int32_t kBeyondBf16 = 0x7f7f8000;

// The bits of the gradient's largest magnitude, if that is to be looked at.
struct Dispatch {
  const GradientSpan& gradient;
  const UpdatedArray* arrays;
  bool look;
  int32_t operator()(const SgdUpdate& update) const {
    return HWY_DYNAMIC_DISPATCH(Sgd)(update, gradient, arrays, look);
  }
  int32_t operator()(const MomentumUpdate& update) const {
    return HWY_DYNAMIC_DISPATCH(Momentum)(update, gradient, arrays, look);
  }
  int32_t operator()(const SquaresUpdate& update) const {
    return HWY_DYNAMIC_DISPATCH(Squares)(update, gradient, arrays, look);
  }
  int32_t operator()(const AdamUpdate& update) const {
    return HWY_DYNAMIC_DISPATCH(Adam)(update, gradient, arrays, look);
  }
  int32_t operator()(const FtrlUpdate& update) const {
    return HWY_DYNAMIC_DISPATCH(Ftrl)(update, gradient, arrays, look);
  }
};

// For what begins `begin` elements later.
Update Beginning(Update update, size_t begin) {
  std::visit([begin](auto& rule) { rule.correction = rule.correction.From(begin); }, update);
  return update;
}

int32_t LargestBits(GradientSpan x) { return std::bit_cast<int32_t>(LargestMagnitude(x)); }

// The bounds as they are in the results; false, and nothing is changed, if some result is not finite, if only once it
// is rounded to travel.
bool LookAt(absl::Span<const UpdatedArray> arrays, size_t size, Magnitudes* bounds) {
  Magnitudes found = *bounds;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const int32_t bits = LargestBits({arrays[i].out, size});
    if (bits >= kBeyondBf16) return false;
    found[i] = std::bit_cast<float>(bits);
  }
  *bounds = found;
  return true;
}

bool ApplyApart(const Update& update, const GradientSpan& gradient, absl::Span<const UpdatedArray> arrays,
                Magnitudes* bounds) {
  const int32_t bits = std::visit(Dispatch{gradient, arrays.data(), /*look=*/true}, update);
  if (bits >= kInfinity) return false;
  return StaysSafe(update, std::bit_cast<float>(bits), arrays.size(), bounds) ||
         LookAt(arrays, gradient.size(), bounds);
}

// Where bounds do not tell that the results are finite: what is updated in place is so only once they are.
bool ApplyWithCare(const Update& update, const GradientSpan& gradient, absl::Span<const UpdatedArray> arrays,
                   Magnitudes* bounds) {
  std::array<std::vector<float>, kMostArrays> results;
  std::array<UpdatedArray, kMostArrays> apart;
  for (size_t i = 0; i < arrays.size(); ++i) {
    apart[i] = arrays[i];
    if (arrays[i].in != arrays[i].out) continue;
    results[i].resize(gradient.size());
    apart[i].out = results[i].data();
  }
  if (!ApplyApart(update, gradient, absl::MakeConstSpan(apart.data(), arrays.size()), bounds)) return false;
  for (size_t i = 0; i < arrays.size(); ++i) std::copy(results[i].begin(), results[i].end(), arrays[i].out);
  return true;
}

}  // namespace

double AdamCorrection(double beta, uint64_t step) {
  double power = 1;
  for (; step > 0; step >>= 1, beta *= beta) {
    if (step & 1) power *= beta;
  }
  return 1 - power;
}

AdamUpdate MakeAdamUpdate(double learning_rate, double beta1, double beta2, double epsilon, uint64_t step) {
  const double second_correction = std::sqrt(AdamCorrection(beta2, step));
  AdamUpdate update;
  update.step_size = static_cast<float>(learning_rate * second_correction / AdamCorrection(beta1, step));
  update.beta1 = static_cast<float>(beta1);
  update.gain = static_cast<float>(1 - beta1);
  update.beta2 = static_cast<float>(beta2);
  update.one_minus_beta2 = static_cast<float>(1 - beta2);
  update.epsilon = static_cast<float>(epsilon * second_correction);
  return update;
}

bool ApplyUpdate(const Update& update, GradientSpan gradient, absl::Span<const UpdatedArray> arrays,
                 Magnitudes* bounds) {
  CHECK_EQ(arrays.size(), 1 + SlotsOf(update));
  const FlushSubnormals flush;
  const bool in_place =
      std::any_of(arrays.begin(), arrays.end(), [](const UpdatedArray& array) { return array.in == array.out; });
  if (!in_place) return ApplyApart(update, gradient, arrays, bounds);
  const int32_t bits = LargestBits(gradient);
  if (bits >= kInfinity) return false;
  if (!StaysSafe(update, std::bit_cast<float>(bits), arrays.size(), bounds))
    return ApplyWithCare(update, gradient, arrays, bounds);
  // A small slice from the end backwards: that part of its gradient is still in the first cache.
  const size_t block = gradient.size() <= kSmallSlice ? kBlock : gradient.size();
  for (size_t end = gradient.size(); end > 0;) {
    const size_t begin = (end - 1) / block * block;
    std::array<UpdatedArray, kMostArrays> parts;
    std::transform(arrays.begin(), arrays.end(), parts.begin(),
                   [begin](const UpdatedArray& array) { return array.From(begin); });
    const GradientSpan part = gradient.subspan(begin, end - begin);
    std::visit(Dispatch{part, parts.data(), /*look=*/false}, Beginning(update, begin));
    end = begin;
  }
  return true;
}

void FindStep(const SgdUpdate& update, GradientSpan gradient, absl::Span<const UpdatedArray> arrays, float* step) {
  HWY_DYNAMIC_DISPATCH(PenalizedGradient)(update.decay, gradient, arrays.data(), step);
}

void FindStep(const MomentumUpdate& update, GradientSpan gradient, absl::Span<const UpdatedArray> arrays, float* step) {
  HWY_DYNAMIC_DISPATCH(MomentumStep)(update, gradient, arrays.data(), step);
}

void FindStep(const SquaresUpdate& update, GradientSpan gradient, absl::Span<const UpdatedArray> arrays, float* step) {
  HWY_DYNAMIC_DISPATCH(SquaresStep)(update, gradient, arrays.data(), step);
}

void FindStep(const AdamUpdate& update, GradientSpan gradient, absl::Span<const UpdatedArray> arrays, float* step) {
  HWY_DYNAMIC_DISPATCH(AdamStep)(update, gradient, arrays.data(), step);
}

void FindStep(const FtrlUpdate& update, GradientSpan gradient, absl::Span<const UpdatedArray> arrays, float* step) {
  HWY_DYNAMIC_DISPATCH(PenalizedGradient)(update.decay, gradient, arrays.data(), step);
}

}  // namespace downpour
#endif  // HWY_ONCE
