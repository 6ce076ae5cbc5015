#include "tensor/deflation.h"

#include <algorithm>
#include <limits>
#include <vector>

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

// Whole rows that follow each other, or a part of one.
struct Rows {
  size_t index;
  float* begin;
  size_t column;
  size_t size;   // of each
  size_t count;  // 1 or kAbreast
};

template <class Visit>
void ForEachRows(const MatrixRun& run, absl::Span<float> step, const Visit& visit) {
  size_t column = run.lead, index = 0;
  for (size_t begin = 0; begin < step.size(); column = 0) {
    const size_t size = std::min(run.columns - column, step.size() - begin);
    const bool is_abreast = column == 0 && step.size() - begin >= kAbreast * run.columns;
    const Rows rows = {index, step.data() + begin, column, size, is_abreast ? kAbreast : 1};
    visit(rows);
    begin += rows.count * size;
    index += rows.count;
  }
}

// products[r] = row r times `with`, whose rows lie `stride` apart.
void Multiply(const Rows& rows, const float* with, size_t stride, float* products) {
  if (rows.count == 1) {
    *products = DotOf(rows.begin, with, rows.size);
  } else {
    HWY_DYNAMIC_DISPATCH(DotAbreast)(rows.begin, rows.size, with, stride, rows.size, products);
  }
}

std::vector<float> LargestRow(const MatrixRun& run, absl::Span<float> step) {
  std::vector<float> row(run.columns);
  float most = 0;
  Rows largest{};
  ForEachRows(run, step, [&](const Rows& rows) {
    float squares[kAbreast];
    Multiply(rows, rows.begin, rows.size, squares);
    for (size_t i = 0; i < rows.count; ++i) {
      if (squares[i] <= most || squares[i] != squares[i]) continue;
      most = squares[i];
      largest = {rows.index + i, rows.begin + i * rows.size, rows.column, rows.size, 1};
    }
  });
  std::copy(largest.begin, largest.begin + largest.size, row.begin() + largest.column);
  return row;
}

// To divide by, and to multiply floats by.
bool IsUsable(float square) {
  return square >= std::numeric_limits<float>::min() && square <= std::numeric_limits<float>::max();
}

}  // namespace

void Deflate(const MatrixRun& run, float keep, absl::Span<float> step) {
  std::vector<float> right = LargestRow(run, step);
  std::vector<float> left((run.lead + step.size() + run.columns - 1) / run.columns);
  float square = 1;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<float> sums(run.columns);
    ForEachRows(run, step, [&](const Rows& rows) {
      float* const products = left.data() + rows.index;
      Multiply(rows, right.data() + rows.column, 0, products);
      for (size_t i = 0; i < rows.count; ++i) products[i] /= square;
      if (rows.count == 1) {
        HWY_DYNAMIC_DISPATCH(AddMultiple)(*products, rows.begin, sums.data() + rows.column, rows.size);
      } else {
        HWY_DYNAMIC_DISPATCH(AddAbreast)(products, rows.begin, sums.data(), rows.size);
      }
    });
    right = std::move(sums);
    square = DotOf(left.data(), left.data(), left.size());
    if (!IsUsable(square) || !IsUsable(DotOf(right.data(), right.data(), right.size()))) return;
  }
  const float less = (keep - 1) / square;
  ForEachRows(run, step, [&](const Rows& rows) {
    for (size_t i = 0; i < rows.count; ++i) {
      HWY_DYNAMIC_DISPATCH(AddMultiple)
      (less * left[rows.index + i], right.data() + rows.column, rows.begin + i * rows.size, rows.size);
    }
  });
}

void RaiseBeside(const MatrixRun& run, size_t directions, float factor, absl::Span<float> step) {
  std::vector<float> beside(step.begin(), step.end());
  for (size_t i = 0; i < directions; ++i) Deflate(run, 0, absl::MakeSpan(beside));
  HWY_DYNAMIC_DISPATCH(AddMultiple)(factor - 1, beside.data(), step.data(), step.size());
}

}  // namespace downpour
#endif  // HWY_ONCE
