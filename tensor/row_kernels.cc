#include "tensor/row_kernels.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/apply_bounds.h"
#include "tensor/flush_subnormals.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/row_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "tensor/update_rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downpour::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The sum of the squares, in the order that the header states.
HWY_INLINE float SumOfSquares(const float* g, size_t width) {
  float sums[16] = {};
  size_t i = 0;
  for (; i + 16 <= width; i += 16) {
    for (size_t j = 0; j < 16; ++j) sums[j] += g[i + j] * g[i + j];
  }
  for (size_t j = 0; i + j < width; ++j) sums[j] += g[i + j] * g[i + j];
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

// Adagrad with one sum for the whole row, of the means of its squares.
// Source: as FBGEMM's rowwise_adagrad has it, in the order of SquaresUpdate.
void UpdateByMean(const SquaresUpdate& u, const GradientSpan& gradient, float* w, float* slot) {
  float penalized[kMostRowWidth];
  ForEachVector(gradient, /*look=*/false, [=, &penalized](auto d, size_t i, auto pushed) HWY_ATTR {
    hn::StoreU(Penalized(d, pushed, hn::LoadU(d, w + i), u.decay), d, penalized + i);
  });
  const float mean = SumOfSquares(penalized, gradient.size()) / static_cast<float>(gradient.size());
  const float sum = u.keep * *slot + u.gain * mean;
  *slot = sum;
  ForEachVector(GradientSpan(penalized, gradient.size()), /*look=*/false, [=](auto d, size_t i, auto g) HWY_ATTR {
    hn::StoreU(hn::Sub(hn::LoadU(d, w + i), Step(d, u, hn::Set(d, sum), g)), d, w + i);
  });
}

// One row's arrays by its rule. Rules differ in their slots only.
struct RowRule {
  const RowShape& shape;
  const GradientSpan& gradient;
  float* w;
  float* slots;

  UpdatedArray values() const { return {w, w}; }
  UpdatedArray slot(size_t i) const { return {slots + i * shape.width, slots + i * shape.width}; }
  static constexpr auto kPlain = [](auto, size_t, auto step) HWY_ATTR { return step; };

  HWY_INLINE void operator()(const SgdUpdate& u) const { CorrectedSgd(u, gradient, values(), false, kPlain); }
  HWY_INLINE void operator()(const MomentumUpdate& u) const {
    CorrectedMomentum(u, gradient, values(), slot(0), false, kPlain);
  }
  HWY_INLINE void operator()(const SquaresUpdate& u) const {
    if (shape.slot_is_one) return UpdateByMean(u, gradient, w, slots);
    CorrectedSquares(u, gradient, values(), slot(0), false, kPlain);
  }
  HWY_INLINE void operator()(const AdamUpdate& u) const {
    CorrectedAdam(u, gradient, values(), slot(0), slot(1), false, kPlain);
  }
  HWY_INLINE void operator()(const FtrlUpdate& u) const {
    CorrectedFtrl(u, gradient, values(), slot(0), slot(1), false, kPlain);
  }
};

template <class Rule>
HWY_INLINE void UpdateEach(const Rule& rule, const RowShape& shape, const GradientSpan& gradients,
                           absl::Span<const UpdatedRow> rows) {
  float wide[kMostRowWidth];
  for (const UpdatedRow& row : rows) {
    const GradientSpan gradient = gradients.subspan(row.index * shape.width, shape.width);
    auto* const slots = reinterpret_cast<float*>(row.at + shape.value_bytes());
    if (!shape.halves) {
      RowRule{shape, gradient, reinterpret_cast<float*>(row.at), slots}(rule);
      continue;
    }
    auto* const halves = reinterpret_cast<Bf16*>(row.at);
    ForEachVector<false>(absl::Span<const Bf16>(halves, shape.width),
                         [&wide](auto d, size_t i, auto x) HWY_ATTR { hn::StoreU(x, d, wide + i); });
    RowRule{shape, gradient, wide, slots}(rule);
    ForEachVector<false>(absl::Span<const float>(wide, shape.width),
                         [=](auto d, size_t i, auto x) HWY_ATTR { StoreRounded(d, x, halves + i); });
  }
}

void UpdateAll(const Update& update, const RowShape& shape, const GradientSpan& gradients,
               absl::Span<const UpdatedRow> rows) {
  std::visit([&](const auto& rule) HWY_ATTR { UpdateEach(rule, shape, gradients, rows); }, update);
}

}  // namespace downpour::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downpour {

HWY_EXPORT(UpdateAll);

void UpdateRows(const Update& update, const RowShape& shape, GradientSpan gradients,
                absl::Span<const UpdatedRow> rows) {
  CHECK_EQ(shape.slots, SlotsOf(update));
  CHECK(!shape.slot_is_one || std::holds_alternative<SquaresUpdate>(update));
  const FlushSubnormals flush;
  HWY_DYNAMIC_DISPATCH(UpdateAll)(update, shape, gradients, rows);
}

bool RowsStaySafe(const Update& update, const RowShape& shape, double largest, Magnitudes* bounds) {
  Update bounding = update;
  if (shape.slot_is_one) {
    // The mean of the squares is as small as one of them over the width, so a step may be that much longer.
    std::get<SquaresUpdate>(bounding).learning_rate *= std::sqrt(static_cast<float>(shape.width)) * (1 + 0x1p-10f);
  }
  return StaysSafe(bounding, largest, 1 + shape.slots, bounds);
}

void ReadValues(const RowShape& shape, const std::byte* row, float* to) {
  if (shape.halves) return WidenBf16({reinterpret_cast<const Bf16*>(row), shape.width}, to);
  std::memcpy(to, row, shape.width * sizeof(float));
}

void BeginRow(const RowShape& shape, const float* values, std::byte* row) {
  std::memset(row, 0, shape.bytes());
  if (shape.halves) return RoundToBf16({values, shape.width}, reinterpret_cast<Bf16*>(row));
  std::memcpy(row, values, shape.width * sizeof(float));
}

void RaiseToRow(const RowShape& shape, const std::byte* row, Magnitudes* largest) {
  const auto raise = [](GradientSpan numbers, double* to) {
    const double found = LargestMagnitude(numbers);
    if (!(found <= *to)) *to = found;  // NaN too
  };
  if (shape.halves) {
    raise(absl::Span<const Bf16>(reinterpret_cast<const Bf16*>(row), shape.width), largest->data());
  } else {
    raise({reinterpret_cast<const float*>(row), shape.width}, largest->data());
  }
  for (size_t i = 0; i < shape.slots; ++i) raise({shape.slot(row, i), shape.slot_width()}, &(*largest)[1 + i]);
}

}  // namespace downpour
#endif  // HWY_ONCE
