#include "tensor/row_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/unit/tensor/cpu_targets.h"

namespace downpour {
namespace {

// Runs every case on every target this CPU has, and on the portable one.
class RowKernelsTest : public CpuTargetTest {};
INSTANTIATE_TEST_SUITE_P(Targets, RowKernelsTest, testing::ValuesIn(CpuTargets()), NameOfCpuTarget);

// Numbers of many magnitudes, the same in each run.
class Draws {
 public:
  float Next() {
    seed_ = seed_ * 1664525u + 1013904223u;
    return std::ldexp(static_cast<float>(seed_ >> 8) * 0x1p-23f - 1.0f, static_cast<int>(seed_ % 20) - 15);
  }
  std::vector<float> Numbers(size_t n) {
    std::vector<float> numbers(n);
    for (float& number : numbers) number = Next();
    return numbers;
  }

 private:
  uint32_t seed_ = 7;
};

const std::vector<Update>& Updates() {
  static const std::vector<Update> updates = {
      SgdUpdate{0.1f, 0.01f}, MomentumUpdate{0.02f, 0.9f}, SquaresUpdate{0.05f, 1, 1, 0.1f, 1e-10f, 0.01f},
      MakeAdamUpdate(0.001, 0.9, 0.999, 1e-8, 3), FtrlUpdate{0.1f, 1, 0.01f, 0.1f}};
  return updates;
}

// A row as four arrays: its values, and up to two slots.
struct Row {
  std::vector<float> values;
  std::vector<std::vector<float>> slots;
};

Row DrawRow(const RowShape& shape, Draws& draws) {
  Row row{draws.Numbers(shape.width), {}};
  for (size_t i = 0; i < shape.slots; ++i) {
    row.slots.push_back(draws.Numbers(shape.slot_width()));
    for (float& number : row.slots.back()) number = std::fabs(number);
  }
  return row;
}

std::vector<std::byte> Packed(const RowShape& shape, const Row& row) {
  std::vector<std::byte> bytes(shape.bytes());
  BeginRow(shape, row.values.data(), bytes.data());
  for (size_t i = 0; i < shape.slots; ++i) {
    std::memcpy(bytes.data() + shape.value_bytes() + i * shape.slot_width() * 4, row.slots[i].data(),
                shape.slot_width() * 4);
  }
  return bytes;
}

std::vector<float> RoundedAndBack(const std::vector<float>& numbers) {
  std::vector<Bf16> halves(numbers.size());
  RoundToBf16(numbers, halves.data());
  std::vector<float> back(numbers.size());
  WidenBf16(halves, back.data());
  return back;
}

void ApplyToRow(const Update& update, absl::Span<const float> gradient, Row* row) {
  std::vector<UpdatedArray> arrays = {{row->values.data(), row->values.data()}};
  for (std::vector<float>& slot : row->slots) arrays.push_back({slot.data(), slot.data()});
  ASSERT_TRUE(ApplyUpdate(update, gradient, arrays));
}

TEST_P(RowKernelsTest, ARowIsUpdatedAsASlice) {
  for (const Update& update : Updates()) {
    for (const size_t width : {1, 3, 8, 16, 17, 100}) {
      for (const bool halves : {false, true}) {
        const RowShape shape = {.width = width, .slots = SlotsOf(update), .halves = halves};
        Draws draws;
        std::vector<Row> expected;
        std::vector<std::vector<std::byte>> rows;
        for (int i = 0; i < 3; ++i) {
          expected.push_back(DrawRow(shape, draws));
          if (halves) expected.back().values = RoundedAndBack(expected.back().values);
          rows.push_back(Packed(shape, expected.back()));
        }
        const std::vector<float> gradients = draws.Numbers(3 * width);
        // In another order, and one of them not at all.
        UpdateRows(update, shape, absl::MakeConstSpan(gradients), {{{rows[2].data(), 2}, {rows[0].data(), 0}}});
        for (const size_t i : {0, 2}) {
          ApplyToRow(update, absl::MakeConstSpan(gradients).subspan(i * width, width), &expected[i]);
        }
        for (size_t i = 0; i < 3; ++i) EXPECT_EQ(rows[i], Packed(shape, expected[i])) << width << " " << halves;
      }
    }
  }
}

TEST_P(RowKernelsTest, ABfloat16GradientIsWidened) {
  const RowShape shape = {.width = 5, .slots = 1};
  Draws draws;
  const Row row = DrawRow(shape, draws);
  const std::vector<float> gradient = RoundedAndBack(draws.Numbers(5));
  std::vector<Bf16> halves(5);
  RoundToBf16(gradient, halves.data());
  std::vector<std::byte> by_floats = Packed(shape, row), by_halves = by_floats;
  UpdateRows(Updates()[2], shape, absl::MakeConstSpan(gradient), {{{by_floats.data(), 0}}});
  UpdateRows(Updates()[2], shape, absl::Span<const Bf16>(halves), {{{by_halves.data(), 0}}});
  EXPECT_EQ(by_floats, by_halves);
}

// The sums in the order that the header states, one number after the other.
float MeanSquare(const std::vector<float>& g) {
  float sums[16] = {};
  for (size_t i = 0; i < g.size(); ++i) sums[i % 16] += g[i] * g[i];
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0] / static_cast<float>(g.size());
}

TEST_P(RowKernelsTest, OneSumForARowIsOfTheMeanOfItsSquares) {
  const SquaresUpdate update = {.learning_rate = 0.05f, .start = 0.1f, .epsilon = 1e-10f, .decay = 0.01f};
  for (const size_t width : {1, 5, 16, 33, 128}) {
    const RowShape shape = {.width = width, .slots = 1, .slot_is_one = true};
    Draws draws;
    Row row = DrawRow(shape, draws);
    std::vector<std::byte> bytes = Packed(shape, row);
    std::vector<float> gradient = draws.Numbers(width);
    UpdateRows(update, shape, absl::MakeConstSpan(gradient), {{{bytes.data(), 0}}});
    for (size_t i = 0; i < width; ++i) gradient[i] = gradient[i] + update.decay * row.values[i];
    row.slots[0][0] = row.slots[0][0] + MeanSquare(gradient);
    for (size_t i = 0; i < width; ++i) {
      row.values[i] -=
          update.learning_rate * gradient[i] / (std::sqrt(row.slots[0][0] + update.start) + update.epsilon);
    }
    EXPECT_EQ(bytes, Packed(shape, row)) << width;
  }
}

TEST(RowBoundsTest, WhatStaysSafeIsFiniteAndTheRestIsNot) {
  const SquaresUpdate update = {.learning_rate = 1, .epsilon = 1e-10f};
  for (const bool one : {false, true}) {
    const RowShape shape = {.width = 4, .slots = 1, .slot_is_one = one};
    Magnitudes bounds = {};
    EXPECT_TRUE(RowsStaySafe(update, shape, 0x1p60, &bounds));
    EXPECT_GE(bounds[0], one ? 2 : 1);
    EXPECT_GE(bounds[1], 0x1p120);
    const Magnitudes before = bounds;
    EXPECT_FALSE(RowsStaySafe(update, shape, 0x1p64, &bounds));
    EXPECT_EQ(bounds, before);
  }
}

TEST(RowBoundsTest, MagnitudesOfARowAreThoseOfItsArrays) {
  for (const bool halves : {false, true}) {
    const RowShape shape = {.width = 3, .slots = 1, .halves = halves};
    Magnitudes largest = {0.25, 8, 1};
    RaiseToRow(shape, Packed(shape, {{1, -4, 2}, {{0.5f, 0.25f, 0}}}).data(), &largest);
    EXPECT_EQ(largest, (Magnitudes{4, 8, 1}));
    const float nan = std::numeric_limits<float>::quiet_NaN();
    RaiseToRow(shape, Packed(shape, {{nan, 0, 0}, {{0, 0, 0}}}).data(), &largest);
    EXPECT_FALSE(std::isfinite(largest[0]));
  }
}

}  // namespace
}  // namespace downpour
