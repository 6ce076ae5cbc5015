// UpdateRules: what each update does to a vector of its arrays; for each of Highway's targets.
//
//   CorrectedSquares(update, gradient, w, s, /*look=*/false, [](auto, size_t, auto step) HWY_ATTR { return step; });
//
// `correct(d, i, x)` returns the vector x of the step's elements from i on, with what is to be added to it. With `look`
// the bits of the gradient's largest magnitude come back (vector_loop-inl.h).
// Included once for each target, behind tensor/apply_kernels.h, hwy/foreach_target.h and hwy/highway.h: for slices, and
// for rows of tables.
// Tests: tests/unit/tensor/apply_kernels_test.cc, tests/unit/tensor/row_kernels_test.cc.
#include <cstddef>
#include <cstdint>

#include "tensor/update.h"
#include "tensor/vector_loop-inl.h"

#if defined(DOWNPOUR_TENSOR_UPDATE_RULES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DOWNPOUR_TENSOR_UPDATE_RULES_INL_H
#undef DOWNPOUR_TENSOR_UPDATE_RULES_INL_H
#else
#define DOWNPOUR_TENSOR_UPDATE_RULES_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace downpour::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The gradient with its L2 penalty.
template <class D>
HWY_INLINE hn::Vec<D> Penalized(D d, hn::Vec<D> g, hn::Vec<D> w, float decay) {
  return hn::Add(g, hn::Mul(hn::Set(d, decay), w));
}

template <class D>
HWY_INLINE hn::Vec<D> Velocity(D d, const MomentumUpdate& u, hn::Vec<D> before, hn::Vec<D> g) {
  return hn::Add(hn::Mul(hn::Set(d, u.momentum), before), hn::Mul(hn::Set(d, u.gain), g));
}
template <class D>
HWY_INLINE hn::Vec<D> Step(D d, const MomentumUpdate& u, hn::Vec<D> velocity, hn::Vec<D> g) {
  return hn::Add(hn::Mul(hn::Set(d, u.carry), velocity), hn::Mul(hn::Set(d, u.fresh), g));
}

// Below, all loads stand before the first store: arrays that lie a multiple of 4 KiB apart look alike to a CPU that
// lets a load overtake a store.
template <class Correct>
HWY_INLINE int32_t CorrectedSgd(const SgdUpdate& u, const GradientSpan& gradient, UpdatedArray w, bool look,
                                const Correct& correct) {
  return ForEachVector(gradient, look, [=](auto d, size_t i, auto pushed) HWY_ATTR {
    const auto value = hn::LoadU(d, w.in + i);
    const auto step = correct(d, i, Penalized(d, pushed, value, u.decay));
    hn::StoreU(hn::Sub(value, hn::Mul(hn::Set(d, u.learning_rate), step)), d, w.out + i);
  });
}

template <class Correct>
HWY_INLINE int32_t CorrectedMomentum(const MomentumUpdate& u, const GradientSpan& gradient, UpdatedArray w,
                                     UpdatedArray v, bool look, const Correct& correct) {
  return ForEachVector(gradient, look, [=](auto d, size_t i, auto pushed) HWY_ATTR {
    const auto value = hn::LoadU(d, w.in + i);
    const auto g = Penalized(d, pushed, value, u.decay);
    const auto velocity = Velocity(d, u, hn::LoadU(d, v.in + i), g);
    const auto step = correct(d, i, Step(d, u, velocity, g));
    hn::StoreU(velocity, d, v.out + i);
    hn::StoreU(hn::Sub(value, hn::Mul(hn::Set(d, u.learning_rate), step)), d, w.out + i);
  });
}

template <class D>
HWY_INLINE hn::Vec<D> SumOfSquares(D d, const SquaresUpdate& u, hn::Vec<D> before, hn::Vec<D> g) {
  return hn::Add(hn::Mul(hn::Set(d, u.keep), before), hn::Mul(hn::Mul(hn::Set(d, u.gain), g), g));
}
template <class D>
HWY_INLINE hn::Vec<D> Step(D d, const SquaresUpdate& u, hn::Vec<D> squares, hn::Vec<D> g) {
  const auto root = hn::Sqrt(hn::Add(squares, hn::Set(d, u.start)));
  return hn::Div(hn::Mul(hn::Set(d, u.learning_rate), g), hn::Add(root, hn::Set(d, u.epsilon)));
}

template <class Correct>
HWY_INLINE int32_t CorrectedSquares(const SquaresUpdate& u, const GradientSpan& gradient, UpdatedArray w,
                                    UpdatedArray s, bool look, const Correct& correct) {
  return ForEachVector(gradient, look, [=](auto d, size_t i, auto pushed) HWY_ATTR {
    const auto value = hn::LoadU(d, w.in + i);
    const auto g = Penalized(d, pushed, value, u.decay);
    const auto squares = SumOfSquares(d, u, hn::LoadU(d, s.in + i), g);
    const auto step = correct(d, i, Step(d, u, squares, g));
    hn::StoreU(squares, d, s.out + i);
    hn::StoreU(hn::Sub(value, step), d, w.out + i);
  });
}

template <class D>
HWY_INLINE hn::Vec<D> Mean(D d, const AdamUpdate& u, hn::Vec<D> before, hn::Vec<D> g) {
  return hn::Add(hn::Mul(hn::Set(d, u.beta1), before), hn::Mul(hn::Set(d, u.gain), g));
}
template <class D>
HWY_INLINE hn::Vec<D> MeanSquare(D d, const AdamUpdate& u, hn::Vec<D> before, hn::Vec<D> g) {
  return hn::Add(hn::Mul(hn::Set(d, u.beta2), before), hn::Mul(hn::Mul(hn::Set(d, u.one_minus_beta2), g), g));
}
template <class D>
HWY_INLINE hn::Vec<D> Step(D d, const AdamUpdate& u, hn::Vec<D> mean, hn::Vec<D> square, hn::Vec<D> g) {
  const auto sum = hn::Add(mean, hn::Mul(hn::Set(d, u.fresh), g));
  return hn::Div(hn::Mul(hn::Set(d, u.step_size), sum), hn::Add(hn::Sqrt(square), hn::Set(d, u.epsilon)));
}

template <class Correct>
HWY_INLINE int32_t CorrectedAdam(const AdamUpdate& u, const GradientSpan& gradient, UpdatedArray w, UpdatedArray m,
                                 UpdatedArray v, bool look, const Correct& correct) {
  return ForEachVector(gradient, look, [=](auto d, size_t i, auto pushed) HWY_ATTR {
    const auto value = hn::LoadU(d, w.in + i);
    const auto g = Penalized(d, pushed, value, u.decay);
    const auto mean = Mean(d, u, hn::LoadU(d, m.in + i), g);
    const auto square = MeanSquare(d, u, hn::LoadU(d, v.in + i), g);
    const auto change = correct(d, i, Step(d, u, mean, square, g));
    const auto values = hn::Sub(value, hn::Add(change, hn::Mul(hn::Set(d, u.shrink), value)));
    hn::StoreU(mean, d, m.out + i);
    hn::StoreU(square, d, v.out + i);
    hn::StoreU(values, d, w.out + i);
  });
}

template <class Correct>
HWY_INLINE int32_t CorrectedFtrl(const FtrlUpdate& u, const GradientSpan& gradient, UpdatedArray w, UpdatedArray z,
                                 UpdatedArray n, bool look, const Correct& correct) {
  return ForEachVector(gradient, look, [=](auto d, size_t i, auto pushed) HWY_ATTR {
    const auto value = hn::LoadU(d, w.in + i);
    const auto g = correct(d, i, Penalized(d, pushed, value, u.decay));
    const auto before = hn::LoadU(d, n.in + i);
    const auto squares = hn::Add(before, hn::Mul(g, g));
    const auto root = hn::Sqrt(squares);
    const auto kept = hn::Mul(hn::Sub(root, hn::Sqrt(before)), value);
    const auto sum = hn::Add(hn::LoadU(d, z.in + i), hn::Sub(hn::Mul(hn::Set(d, u.learning_rate), g), kept));
    const auto l1 = hn::Set(d, u.l1);
    const auto beyond = hn::Sub(hn::CopySign(l1, sum), sum);
    const auto values = hn::Div(beyond, hn::Add(hn::Add(hn::Set(d, u.beta), root), hn::Set(d, u.l2)));
    hn::StoreU(sum, d, z.out + i);
    hn::StoreU(squares, d, n.out + i);
    hn::StoreU(hn::IfThenZeroElse(hn::Le(hn::Abs(sum), l1), values), d, w.out + i);
  });
}

}  // namespace downpour::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
