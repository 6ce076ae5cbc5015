#include "tensor/deflation.h"

#include <algorithm>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/deflation.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace downpour::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kParts = 16;  // no CPU's vectors have more floats

float Dot(const float* a, const float* b, size_t n) {
  const hn::CappedTag<float, kParts> d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN float parts[kParts] = {};
  size_t i = 0;
  for (; i + kParts <= n; i += kParts) {
    for (size_t part = 0; part < kParts; part += lanes) {
      const auto product = hn::Mul(hn::LoadU(d, a + i + part), hn::LoadU(d, b + i + part));
      hn::Store(hn::Add(hn::Load(d, parts + part), product), d, parts + part);
    }
  }
  for (size_t part = 0; i < n; ++i, ++part) parts[part] += a[i] * b[i];
  for (size_t half = kParts / 2; half > 0; half /= 2) {
    for (size_t part = 0; part < half; ++part) parts[part] += parts[part + half];
  }
  return parts[0];
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

}  // namespace downpour::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downpour {

HWY_EXPORT(Dot);
HWY_EXPORT(AddMultiple);

namespace {

constexpr int kRounds = 2;

// A row's part in the run.
struct Row {
  size_t index;
  float* begin;
  size_t column;
  size_t size;
};

template <class Visit>
void ForEachRow(const MatrixRun& run, absl::Span<float> step, const Visit& visit) {
  size_t column = run.lead, index = 0;
  for (size_t begin = 0; begin < step.size(); ++index, column = 0) {
    const size_t size = std::min(run.columns - column, step.size() - begin);
    visit(Row{index, step.data() + begin, column, size});
    begin += size;
  }
}

std::vector<float> LargestRow(const MatrixRun& run, absl::Span<float> step) {
  std::vector<float> row(run.columns);
  float most = 0;
  Row largest{};
  ForEachRow(run, step, [&](const Row& at) {
    const float square = HWY_DYNAMIC_DISPATCH(Dot)(at.begin, at.begin, at.size);
    if (square > most) {
      most = square;
      largest = at;
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
    ForEachRow(run, step, [&](const Row& row) {
      left[row.index] = HWY_DYNAMIC_DISPATCH(Dot)(row.begin, right.data() + row.column, row.size) / square;
      HWY_DYNAMIC_DISPATCH(AddMultiple)(left[row.index], row.begin, sums.data() + row.column, row.size);
    });
    right = std::move(sums);
    square = HWY_DYNAMIC_DISPATCH(Dot)(left.data(), left.data(), left.size());
    if (!IsUsable(square) || !IsUsable(HWY_DYNAMIC_DISPATCH(Dot)(right.data(), right.data(), right.size()))) return;
  }
  const float less = (keep - 1) / square;
  ForEachRow(run, step, [&](const Row& row) {
    HWY_DYNAMIC_DISPATCH(AddMultiple)(less * left[row.index], right.data() + row.column, row.begin, row.size);
  });
}

void RaiseBeside(const MatrixRun& run, size_t directions, float factor, absl::Span<float> step) {
  std::vector<float> beside(step.begin(), step.end());
  for (size_t i = 0; i < directions; ++i) Deflate(run, 0, absl::MakeSpan(beside));
  HWY_DYNAMIC_DISPATCH(AddMultiple)(factor - 1, beside.data(), step.data(), step.size());
}

}  // namespace downpour
#endif  // HWY_ONCE
