#include "tensor/deflation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tensor/apply_kernels.h"
#include "tensor/flush_subnormals.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/deflation.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef DOWNPOUR_DEFLATION_SIZES  // this file is read once for each target
#define DOWNPOUR_DEFLATION_SIZES
namespace downpour {
constexpr size_t kParts = 16;   // no CPU's vectors have more floats
constexpr size_t kAbreast = 4;  // rows at a time, so that no sum waits for its own last addition
}  // namespace downpour
#endif

HWY_BEFORE_NAMESPACE();
namespace downpour::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

float SumOf(float* parts) {
  for (size_t half = kParts / 2; half > 0; half /= 2) {
    for (size_t part = 0; part < half; ++part) parts[part] += parts[part + half];
  }
  return parts[0];
}

// SumOf of each row. All but its last two additions are made for four parts, those for four rows at once.
void SumsOf(const float* parts, float* sums) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t row = 0; row < kAbreast; ++row) {
    float copy[kParts];
    std::copy_n(parts + row * kParts, kParts, copy);
    sums[row] = SumOf(copy);
  }
#else
  const hn::FixedTag<float, 4> d;
  HWY_ALIGN float quarters[kAbreast * 4];
  for (size_t row = 0; row < kAbreast; ++row) {
    const float* const part = parts + row * kParts;
    const auto even = hn::Add(hn::Load(d, part), hn::Load(d, part + 8));
    const auto odd = hn::Add(hn::Load(d, part + 4), hn::Load(d, part + 12));
    hn::Store(hn::Add(even, odd), d, quarters + row * 4);
  }
  hn::Vec<decltype(d)> first, second, third, fourth;
  hn::LoadInterleaved4(d, quarters, first, second, third, fourth);
  hn::StoreU(hn::Add(hn::Add(first, third), hn::Add(second, fourth)), d, sums);
#endif
}

// products[r] = row r of a times row r of b; their rows lie `a_stride` and `b_stride` apart.
template <size_t rows>
void DotRows(const float* a, size_t a_stride, const float* b, size_t b_stride, size_t n, float* products) {
  static_assert(rows == 1 || rows == kAbreast);
  const hn::CappedTag<float, kParts> d;
  HWY_ALIGN float parts[rows][kParts];
  const size_t whole = n - n % kParts;
  for (size_t part = 0; part < kParts; part += hn::Lanes(d)) {
    const auto product = [&](size_t row, size_t i) {
      return hn::Mul(hn::LoadU(d, a + row * a_stride + i), hn::LoadU(d, b + row * b_stride + i));
    };
    auto sum0 = hn::Zero(d);
    if constexpr (rows == 1) {
      for (size_t i = part; i < whole; i += kParts) sum0 = hn::Add(sum0, product(0, i));
    } else {
      auto sum1 = sum0, sum2 = sum0, sum3 = sum0;
      for (size_t i = part; i < whole; i += kParts) {
        sum0 = hn::Add(sum0, product(0, i));
        sum1 = hn::Add(sum1, product(1, i));
        sum2 = hn::Add(sum2, product(2, i));
        sum3 = hn::Add(sum3, product(3, i));
      }
      hn::Store(sum1, d, parts[1] + part);
      hn::Store(sum2, d, parts[2] + part);
      hn::Store(sum3, d, parts[3] + part);
    }
    hn::Store(sum0, d, parts[0] + part);
  }
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = whole; i < n; ++i) parts[row][i - whole] += a[row * a_stride + i] * b[row * b_stride + i];
  }
  if constexpr (rows == 1) {
    *products = SumOf(parts[0]);
  } else {
    SumsOf(parts[0], products);
  }
}

void Dot(const float* a, const float* b, size_t n, float* product) { DotRows<1>(a, 0, b, 0, n, product); }

void DotAbreast(const float* a, size_t a_stride, const float* b, size_t b_stride, size_t n, float* products) {
  DotRows<kAbreast>(a, a_stride, b, b_stride, n, products);
}

// y += factor * x
void AddMultiple(float factor, const float* x, float* y, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, y + i), hn::Mul(hn::Set(d, factor), hn::LoadU(d, x + i))), d, y + i);
  }
  for (; i < n; ++i) y[i] += factor * x[i];
}

// y += factors[r] * row r of x, one row after the other; the rows lie n apart.
void AddAbreast(const float* factors, const float* x, float* y, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto sum = hn::LoadU(d, y + i);
    for (size_t row = 0; row < kAbreast; ++row) {
      sum = hn::Add(sum, hn::Mul(hn::Set(d, factors[row]), hn::LoadU(d, x + row * n + i)));
    }
    hn::StoreU(sum, d, y + i);
  }
  for (; i < n; ++i) {
    for (size_t row = 0; row < kAbreast; ++row) y[i] += factors[row] * x[row * n + i];
  }
}

}  // namespace downpour::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downpour {

HWY_EXPORT(Dot);
HWY_EXPORT(DotAbreast);
HWY_EXPORT(AddMultiple);
HWY_EXPORT(AddAbreast);

namespace {

constexpr int kRounds = 2;

float DotOf(const float* a, const float* b, size_t n) {
  float product = 0;
  HWY_DYNAMIC_DISPATCH(Dot)(a, b, n, &product);
  return product;
}

// products[r] = row r of `step` times `with`, whose rows lie `stride` apart.
void Multiply(const Rows& rows, const float* step, const float* with, size_t stride, float* products) {
  if (rows.count == 1) {
    *products = DotOf(step, with, rows.size);
  } else {
    HWY_DYNAMIC_DISPATCH(DotAbreast)(step, rows.size, with, stride, rows.size, products);
  }
}

// Computes the step, and finds its largest row while it is at hand. Returns the sum of the step's squares. The row is
// brought to a length near 1, by a power of two, which rounds nothing: else numbers would go with the sixth power of
// the step's, and leave the range of floats.
double FindLargestRow(const MatrixRun& run, Deflation::Compute compute, absl::Span<float> step,
                      std::vector<float>* largest) {
  double whole = 0;
  float most = 0;
  Rows found{};
  ForEachRows(run, step.size(), kAbreast, [&](const Rows& rows) {
    const absl::Span<float> part = step.subspan(rows.begin, rows.count * rows.size);
    compute(rows.begin, part);
    float squares[kAbreast];
    Multiply(rows, part.data(), part.data(), rows.size, squares);
    for (size_t i = 0; i < rows.count; ++i) {
      whole += squares[i];
      if (squares[i] <= most || squares[i] != squares[i]) continue;
      most = squares[i];
      found = {rows.index + i, rows.begin + i * rows.size, rows.column, rows.size, 1};
    }
  });
  largest->assign(run.columns, 0);
  const float scale = most > 0 ? std::ldexp(1.0f, -std::ilogb(most) / 2) : 1;
  std::transform(step.begin() + found.begin, step.begin() + found.begin + found.size, largest->begin() + found.column,
                 [scale](float number) { return scale * number; });
  return whole;
}

// To divide by, and to multiply floats by.
bool IsUsable(float square) {
  return square >= std::numeric_limits<float>::min() && square <= std::numeric_limits<float>::max();
}

}  // namespace

RankOne Deflation::Find(const MatrixRun& run, const KeptShare& keep, Compute compute, absl::Span<float> step) {
  const FlushSubnormals flush;
  const double whole = FindLargestRow(run, compute, step, &right_);
  left_.resize(run.RowsOf(step.size()));
  float square = 1, right_square = 1;
  for (int round = 0; round < kRounds; ++round) {
    sums_.assign(run.columns, 0);
    ForEachRows(run, step.size(), kAbreast, [&](const Rows& rows) {
      const float* const part = step.data() + rows.begin;
      float* const products = left_.data() + rows.index;
      Multiply(rows, part, right_.data() + rows.column, 0, products);
      for (size_t i = 0; i < rows.count; ++i) products[i] /= square;
      if (rows.count == 1) {
        HWY_DYNAMIC_DISPATCH(AddMultiple)(*products, part, sums_.data() + rows.column, rows.size);
      } else {
        HWY_DYNAMIC_DISPATCH(AddAbreast)(products, part, sums_.data(), rows.size);
      }
    });
    right_.swap(sums_);
    square = DotOf(left_.data(), left_.data(), left_.size());
    right_square = DotOf(right_.data(), right_.data(), right_.size());
    if (!IsUsable(square) || !IsUsable(right_square)) return {};
  }
  const double part = static_cast<double>(right_square) / square;
  const float kept = std::clamp(static_cast<float>(whole / part - 1), keep.least, keep.most);
  const float less = (kept - 1) / square;
  for (float& row : left_) row *= less;
  const double most = static_cast<double>(LargestMagnitude({left_.data(), left_.size()})) *
                      LargestMagnitude({right_.data(), right_.size()});
  return {run, left_.data(), right_.data(), most};
}

void Deflate(const MatrixRun& run, float keep, absl::Span<float> step) {
  Deflation deflation;
  const RankOne added = deflation.Find(
      run, {.least = keep, .most = keep}, [](size_t, absl::Span<float>) {}, step);
  if (added.left == nullptr) return;
  ForEachRows(run, step.size(), 1, [&](const Rows& row) {
    HWY_DYNAMIC_DISPATCH(AddMultiple)
    (added.left[row.index], added.right + row.column, step.data() + row.begin, row.size);
  });
}

void ScaleRemainder(const MatrixRun& run, size_t directions, float factor, absl::Span<float> step) {
  const FlushSubnormals flush;
  std::vector<float> beside(step.begin(), step.end());
  for (size_t i = 0; i < directions; ++i) Deflate(run, 0, absl::MakeSpan(beside));
  HWY_DYNAMIC_DISPATCH(AddMultiple)(factor - 1, beside.data(), step.data(), step.size());
}

}  // namespace downpour
#endif  // HWY_ONCE
