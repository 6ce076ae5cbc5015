#include "tensor/host_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tensor/threefry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/host_kernels.cc"
// foreach_target.h comes first: it includes this file once per target.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace downpour::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls body(d, i) for every vector of [0, n), then for the rest one by one.
template <class Body>
HWY_INLINE void ForEachVector(int64_t n, const Body& body) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(d, i);
  for (; i < n; ++i) body(one, i);
}

// Calls row(r, cols) for every row, or once for all of them as one long row where nothing lies between.
template <class Row>
HWY_INLINE void ForEachRow(Matrix out, bool contiguous, const Row& row) {
  if (contiguous) return row(0, out.elements());
  for (int64_t r = 0; r < out.rows; ++r) row(r, out.cols);
}

template <class F>
HWY_INLINE void Map(ConstMatrix x, Matrix y, const F& f) {
  ForEachRow(y, x.contiguous() && y.contiguous(), [&](int64_t r, int64_t cols) HWY_ATTR {
    const float* from = x.row(r);
    float* to = y.row(r);
    ForEachVector(cols, [=](auto d, int64_t i) HWY_ATTR { hn::StoreU(f(d, hn::LoadU(d, from + i)), d, to + i); });
  });
}

template <class F>
HWY_INLINE void Map(ConstMatrix a, ConstMatrix b, Matrix y, const F& f) {
  ForEachRow(y, a.contiguous() && b.contiguous() && y.contiguous(), [&](int64_t r, int64_t cols) HWY_ATTR {
    const float* from_a = a.row(r);
    const float* from_b = b.row(r);
    float* to = y.row(r);
    ForEachVector(cols, [=](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(f(d, hn::LoadU(d, from_a + i), hn::LoadU(d, from_b + i)), d, to + i);
    });
  });
}

// Highway's Exp turns NaN into a number.
template <class V>
HWY_INLINE V KeepNan(V x, V value) {
  return hn::IfThenElse(hn::IsNaN(x), x, value);
}

void AddBias(const float* bias, Matrix x) {
  for (int64_t r = 0; r < x.rows; ++r) {
    float* row = x.row(r);
    ForEachVector(x.cols, [=](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, row + i), hn::LoadU(d, bias + i)), d, row + i);
    });
  }
}

void SumRows(ConstMatrix x, float beta, float* sums) {
  ForEachVector(x.cols, [=](auto d, int64_t i) HWY_ATTR {
    auto sum = beta == 0 ? hn::Zero(d) : hn::Mul(hn::Set(d, beta), hn::LoadU(d, sums + i));
    for (int64_t r = 0; r < x.rows; ++r) sum = hn::Add(sum, hn::LoadU(d, x.row(r) + i));
    hn::StoreU(sum, d, sums + i);
  });
}

void WidenBytes(ConstByteMatrix bytes, float divisor, Matrix to) {
  ForEachRow(to, bytes.contiguous() && to.contiguous(), [&](int64_t r, int64_t cols) HWY_ATTR {
    const uint8_t* from = bytes.row(r);
    float* out = to.row(r);
    ForEachVector(cols, [=](auto d, int64_t i) HWY_ATTR {
      const hn::Rebind<uint8_t, decltype(d)> narrow;
      const hn::RebindToSigned<decltype(d)> whole;
      const auto number = hn::ConvertTo(d, hn::PromoteTo(whole, hn::LoadU(narrow, from + i)));
      hn::StoreU(hn::Div(number, hn::Set(d, divisor)), d, out + i);
    });
  });
}

void Accumulate(ConstMatrix from, Matrix to) {
  Map(from, to, to, [](auto, auto x, auto y) HWY_ATTR { return hn::Add(x, y); });
}

void Multiply(ConstMatrix a, ConstMatrix b, float beta, Matrix y) {
  if (beta == 0) return Map(a, b, y, [](auto, auto v, auto w) HWY_ATTR { return hn::Mul(v, w); });
  for (int64_t r = 0; r < y.rows; ++r) {
    const float *from_a = a.row(r), *from_b = b.row(r);
    float* to = y.row(r);
    ForEachVector(y.cols, [=](auto d, int64_t i) HWY_ATTR {
      const auto sum = hn::MulAdd(hn::LoadU(d, from_a + i), hn::LoadU(d, from_b + i), hn::LoadU(d, to + i));
      hn::StoreU(sum, d, to + i);
    });
  }
}

HWY_INLINE float Dot(const float* a, const float* b, int64_t width) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sums = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= width; i += lanes) sums = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sums);
  float sum = i == 0 ? 0 : hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < width; ++i) sum += a[i] * b[i];
  return sum;
}

void PairDots(ConstMatrix x, int64_t n, Matrix y) {
  const int64_t width = x.cols / n;
  for (int64_t r = 0; r < y.rows; ++r) {
    float* to = y.row(r);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) *to++ = Dot(x.row(r) + i * width, x.row(r) + j * width, width);
    }
  }
}

void PairDotsBackward(ConstMatrix x, int64_t n, ConstMatrix dy, float beta, Matrix dx) {
  const int64_t width = x.cols / n;
  for (int64_t r = 0; r < dx.rows; ++r) {
    if (beta == 0) std::fill_n(dx.row(r), dx.cols, 0.0f);
    const float* gradient = dy.row(r);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) {
        const float g = *gradient++;
        const float *a = x.row(r) + i * width, *b = x.row(r) + j * width;
        float *da = dx.row(r) + i * width, *db = dx.row(r) + j * width;
        ForEachVector(width, [=](auto d, int64_t k) HWY_ATTR {
          hn::StoreU(hn::MulAdd(hn::Set(d, g), hn::LoadU(d, b + k), hn::LoadU(d, da + k)), d, da + k);
          hn::StoreU(hn::MulAdd(hn::Set(d, g), hn::LoadU(d, a + k), hn::LoadU(d, db + k)), d, db + k);
        });
      }
    }
  }
}

void Activate(ActivationFunction f, ConstMatrix x, Matrix y) {
  switch (f) {
    case ActivationFunction::kRelu:
      return Map(x, y, [](auto d, auto v) HWY_ATTR { return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v); });
    case ActivationFunction::kSigmoid:
      return Map(x, y, [](auto d, auto v) HWY_ATTR {
        const auto one = hn::Set(d, 1.0f);
        const auto power = hn::Min(hn::Neg(v), hn::Set(d, 88.0f));  // beyond, Exp overflows
        return KeepNan(v, hn::Div(one, hn::Add(one, hn::Exp(d, power))));
      });
    case ActivationFunction::kTanh:
      return Map(x, y, [](auto d, auto v) HWY_ATTR { return hn::Tanh(d, v); });
  }
}

void ActivateBackward(ActivationFunction f, ConstMatrix y, ConstMatrix dy, Matrix dx) {
  switch (f) {
    case ActivationFunction::kRelu:
      return Map(y, dy, dx, [](auto d, auto out, auto grad) HWY_ATTR {
        return hn::IfThenElseZero(hn::Gt(out, hn::Zero(d)), grad);
      });
    case ActivationFunction::kSigmoid:
      return Map(y, dy, dx, [](auto d, auto out, auto grad) HWY_ATTR {
        return hn::Mul(grad, hn::Mul(out, hn::Sub(hn::Set(d, 1.0f), out)));
      });
    case ActivationFunction::kTanh:
      return Map(y, dy, dx, [](auto d, auto out, auto grad) HWY_ATTR {
        return hn::Mul(grad, hn::Sub(hn::Set(d, 1.0f), hn::Mul(out, out)));
      });
  }
}

// Counter (x0, x1) to two random words, in place.
template <int kRound = 0, class D, class V>
HWY_INLINE void ThreefryRounds(D d, const V (&key)[3], V& x0, V& x1) {
  x0 = hn::Add(x0, x1);
  x1 = hn::Xor(hn::RotateRight<32 - ThreefryRotation(kRound)>(x1), x0);
  if constexpr (kRound % 4 == 3) {
    constexpr uint32_t kFours = (kRound + 1) / 4;
    x0 = hn::Add(x0, key[kFours % 3]);
    x1 = hn::Add(x1, hn::Add(key[(kFours + 1) % 3], hn::Set(d, kFours)));
  }
  if constexpr (kRound + 1 < kThreefryRounds) ThreefryRounds<kRound + 1>(d, key, x0, x1);
}

template <class D, class V>
HWY_INLINE void Threefry(D d, uint64_t seed, V& x0, V& x1) {
  const ThreefryKey words(seed);
  const V key[3] = {hn::Set(d, words.key[0]), hn::Set(d, words.key[1]), hn::Set(d, words.key[2])};
  x0 = hn::Add(x0, key[0]);
  x1 = hn::Add(x1, key[1]);
  ThreefryRounds(d, key, x0, x1);
}

void Dropout(DropoutMask mask, ConstMatrix x, Matrix y) {
  const uint32_t threshold = mask.threshold();
  const float scale = mask.scale();
  const uint64_t seed = *mask.seed;
  const int64_t quarter = DropoutQuarter(x.cols), cols = x.cols;
  const int64_t whole = std::max<int64_t>(0, cols - 3 * quarter);  // counters of four columns; at most 3 are of fewer
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* from = x.row(r);
    float* to = y.row(r);
    const auto columns = [=](auto d, int64_t c) HWY_ATTR {
      const hn::RebindToUnsigned<decltype(d)> du;
      auto word0 = hn::Set(du, static_cast<uint32_t>(r));
      auto word1 = hn::Iota(du, static_cast<uint32_t>(c));
      Threefry(du, seed, word0, word1);
      const auto pass = [=](auto bits, int64_t at) HWY_ATTR {
        if (at >= cols) return;
        const auto dropped = hn::RebindMask(d, hn::Lt(bits, hn::Set(du, threshold)));
        const auto kept = hn::Mul(hn::LoadU(d, from + at), hn::Set(d, scale));
        hn::StoreU(hn::IfThenZeroElse(dropped, kept), d, to + at);
      };
      const auto low = hn::Set(du, 0xffffu);
      pass(hn::And(word0, low), c);
      pass(hn::ShiftRight<16>(word0), c + quarter);
      pass(hn::And(word1, low), c + 2 * quarter);
      pass(hn::ShiftRight<16>(word1), c + 3 * quarter);
    };
    ForEachVector(whole, columns);
    for (int64_t c = whole; c < quarter; ++c) columns(hn::CappedTag<float, 1>(), c);
  }
}

// The sum of exp(x - largest); `powers` gets the exponentials where it is not null.
HWY_INLINE float SumExp(const float* x, int64_t n, float largest, float* powers) {
  const hn::ScalableTag<float> wide;
  auto sums = hn::Zero(wide);
  float sum = 0;
  const auto power = [=](auto d, int64_t i) HWY_ATTR {
    const auto t = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, largest));
    const auto e = KeepNan(t, hn::Exp(d, t));
    if (powers != nullptr) hn::StoreU(e, d, powers + i);
    return e;
  };
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(wide));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) sums = hn::Add(sums, power(wide, i));
  for (; i < n; ++i) sum += hn::GetLane(power(hn::CappedTag<float, 1>(), i));
  return sum + hn::GetLane(hn::SumOfLanes(wide, sums));
}

double SoftmaxCrossEntropy(ConstMatrix logits, const int32_t* labels, WeightedMean mean, Matrix d_logits) {
  double loss = 0;
  for (int64_t r = 0; r < logits.rows; ++r) {
    const float* x = logits.row(r);
    float* gradient = d_logits.rows > 0 ? d_logits.row(r) : nullptr;
    float largest = x[0];
    for (int64_t c = 1; c < logits.cols; ++c) largest = x[c] > largest ? x[c] : largest;
    const float at_label = x[labels[r]];
    const float sum = SumExp(x, logits.cols, largest, gradient);
    const float weight = mean.WeightOf(r), scale = weight / static_cast<float>(mean.examples);
    loss += weight * (std::log(double{sum}) - (double{at_label} - double{largest}));
    if (gradient == nullptr) continue;
    const float share = scale / sum;
    ForEachVector(logits.cols, [=](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::LoadU(d, gradient + i), hn::Set(d, share)), d, gradient + i);
    });
    gradient[labels[r]] -= scale;
  }
  return loss;
}

double MeanSquaredError(ConstMatrix outputs, ConstMatrix targets, WeightedMean mean, Matrix d_outputs) {
  const double width = static_cast<double>(outputs.cols);
  double loss = 0;
  for (int64_t r = 0; r < outputs.rows; ++r) {
    const float* out = outputs.row(r);
    const float* target = targets.row(r);
    const double weight = mean.WeightOf(r);
    for (int64_t c = 0; c < outputs.cols; ++c) {
      const double error = double{out[c]} - double{target[c]};
      loss += weight * (error * error / width);
    }
    if (d_outputs.rows == 0) continue;
    const float scale = static_cast<float>(2 * weight / (width * static_cast<double>(mean.examples)));
    float* const gradient = d_outputs.row(r);
    ForEachVector(outputs.cols, [=](auto d, int64_t i) HWY_ATTR {
      const auto error = hn::Sub(hn::LoadU(d, out + i), hn::LoadU(d, target + i));
      hn::StoreU(hn::Mul(error, hn::Set(d, scale)), d, gradient + i);
    });
  }
  return loss;
}

}  // namespace downpour::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downpour {

HWY_EXPORT(AddBias);
HWY_EXPORT(SumRows);
HWY_EXPORT(WidenBytes);
HWY_EXPORT(Accumulate);
HWY_EXPORT(Multiply);
HWY_EXPORT(PairDots);
HWY_EXPORT(PairDotsBackward);
HWY_EXPORT(Activate);
HWY_EXPORT(ActivateBackward);
HWY_EXPORT(Dropout);
HWY_EXPORT(SoftmaxCrossEntropy);
HWY_EXPORT(MeanSquaredError);

void HostAddBias(const float* bias, Matrix x) { HWY_DYNAMIC_DISPATCH(AddBias)(bias, x); }
void HostSumRows(ConstMatrix x, float beta, float* sums) { HWY_DYNAMIC_DISPATCH(SumRows)(x, beta, sums); }
void HostWidenBytes(ConstByteMatrix bytes, float divisor, Matrix to) {
  HWY_DYNAMIC_DISPATCH(WidenBytes)(bytes, divisor, to);
}
void HostAccumulate(ConstMatrix from, Matrix to) { HWY_DYNAMIC_DISPATCH(Accumulate)(from, to); }
void HostMultiply(ConstMatrix a, ConstMatrix b, float beta, Matrix y) { HWY_DYNAMIC_DISPATCH(Multiply)(a, b, beta, y); }
void HostPairDots(ConstMatrix x, int64_t n, Matrix y) { HWY_DYNAMIC_DISPATCH(PairDots)(x, n, y); }
void HostPairDotsBackward(ConstMatrix x, int64_t n, ConstMatrix dy, float beta, Matrix dx) {
  HWY_DYNAMIC_DISPATCH(PairDotsBackward)(x, n, dy, beta, dx);
}
void HostActivate(ActivationFunction f, ConstMatrix x, Matrix y) { HWY_DYNAMIC_DISPATCH(Activate)(f, x, y); }
void HostActivateBackward(ActivationFunction f, ConstMatrix y, ConstMatrix dy, Matrix dx) {
  HWY_DYNAMIC_DISPATCH(ActivateBackward)(f, y, dy, dx);
}
void HostDropout(DropoutMask mask, ConstMatrix x, Matrix y) { HWY_DYNAMIC_DISPATCH(Dropout)(mask, x, y); }
double HostSoftmaxCrossEntropy(ConstMatrix logits, const int32_t* labels, WeightedMean mean, Matrix d_logits) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxCrossEntropy)(logits, labels, mean, d_logits);
}
double HostMeanSquaredError(ConstMatrix outputs, ConstMatrix targets, WeightedMean mean, Matrix d_outputs) {
  return HWY_DYNAMIC_DISPATCH(MeanSquaredError)(outputs, targets, mean, d_outputs);
}

// exp of a negative number alone, so that nothing overflows. A NaN stays one.
double HostSigmoidCrossEntropy(ConstMatrix logits, ConstMatrix targets, WeightedMean mean, Matrix d_logits) {
  const double elements = static_cast<double>(logits.cols) * static_cast<double>(mean.examples);
  double loss = 0;
  for (int64_t r = 0; r < logits.rows; ++r) {
    const double weight = mean.WeightOf(r), scale = weight / elements;
    double of_row = 0;
    for (int64_t c = 0; c < logits.cols; ++c) {
      const double x = logits.row(r)[c], target = targets.row(r)[c];
      const double small = std::exp(-std::abs(x));
      of_row += (x < 0 ? 0 : x) - x * target + std::log1p(small);
      if (d_logits.rows == 0) continue;
      const double share = (x < 0 ? small : 1) / (1 + small);
      d_logits.row(r)[c] = static_cast<float>((share - target) * scale);
    }
    loss += weight * (of_row / static_cast<double>(logits.cols));
  }
  return loss;
}

}  // namespace downpour
#endif  // HWY_ONCE
