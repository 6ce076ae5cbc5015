#include "tensor/deflation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/apply_kernels.h"
#include "tests/unit/tensor/cpu_targets.h"

namespace downpour {
namespace {

// What deflation.h states, one number after the other.
float DotByParts(const float* a, const float* b, size_t n) {
  float parts[16] = {};
  for (size_t i = 0; i < n; ++i) parts[i % 16] = parts[i % 16] + a[i] * b[i];
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t part = 0; part < half; ++part) parts[part] = parts[part] + parts[part + half];
  }
  return parts[0];
}

// Of whole rows.
std::vector<float> Expected(size_t columns, const KeptShare& keep, std::vector<float> a) {
  const size_t rows = a.size() / columns;
  const auto row_square = [&](size_t row) { return DotByParts(&a[row * columns], &a[row * columns], columns); };
  size_t largest = 0;
  double whole = 0;
  for (size_t r = 0; r < rows; ++r) {
    whole += row_square(r);
    if (row_square(r) > row_square(largest)) largest = r;
  }
  std::vector<float> right(a.begin() + largest * columns, a.begin() + (largest + 1) * columns), left(rows);
  const float scale = std::ldexp(1.0f, -std::ilogb(row_square(largest)) / 2);
  for (float& column : right) column *= scale;
  float square = 1;
  for (int round = 0; round < 2; ++round) {
    std::vector<float> sums(columns);
    for (size_t r = 0; r < rows; ++r) {
      left[r] = DotByParts(&a[r * columns], right.data(), columns) / square;
      for (size_t c = 0; c < columns; ++c) sums[c] = sums[c] + left[r] * a[r * columns + c];
    }
    right = sums;
    square = DotByParts(left.data(), left.data(), rows);
  }
  const double part = static_cast<double>(DotByParts(right.data(), right.data(), columns)) / square;
  const float kept = std::clamp(static_cast<float>(whole / part - 1), keep.least, keep.most);
  for (size_t r = 0; r < rows; ++r) {
    const float factor = (kept - 1) / square * left[r];
    for (size_t c = 0; c < columns; ++c) a[r * columns + c] = a[r * columns + c] + factor * right[c];
  }
  return a;
}

std::vector<float> Numbers(size_t n, uint32_t seed) {
  std::vector<float> numbers(n);
  for (float& number : numbers) {
    seed = seed * 1664525u + 1013904223u;
    number = static_cast<float>(seed >> 8) * 0x1p-24f + 0.1f;
  }
  return numbers;
}

// What a deflation is to find a direction of: these numbers, whichever part is asked for.
auto CopyOf(absl::Span<const float> numbers) {
  return [numbers](size_t begin, absl::Span<float> part) {
    std::copy_n(numbers.begin() + begin, part.size(), part.begin());
  };
}

double Norm(const std::vector<float>& a) {
  double sum = 0;
  for (const float x : a) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

class DeflationTest : public CpuTargetTest {};
INSTANTIATE_TEST_SUITE_P(Targets, DeflationTest, testing::ValuesIn(CpuTargets()), NameOfCpuTarget);

TEST_P(DeflationTest, HasTheBitsOfTheLoopThatTheHeaderStates) {
  for (const size_t columns : {8, 16, 31, 100}) {
    std::vector<float> a = Numbers(columns * 23, static_cast<uint32_t>(columns));
    const std::vector<float> expected = Expected(columns, {.least = 0.25f, .most = 0.25f}, a);
    Deflate({.columns = columns}, 0.25f, absl::MakeSpan(a));
    EXPECT_EQ(std::memcmp(a.data(), expected.data(), 4 * a.size()), 0) << columns;
  }
}

// The step is computed part after part, by memory that another step has used. Its largest row is a part of one.
TEST_P(DeflationTest, WhatIsFoundIsWhatDeflateAdds) {
  Deflation deflation;
  for (const MatrixRun& run : {MatrixRun{40, 7}, MatrixRun{8, 0}, MatrixRun{31, 30}}) {
    std::vector<float> given = Numbers(run.columns * 21 + 3, static_cast<uint32_t>(run.columns));
    for (size_t i = 0; i < run.columns - run.lead; ++i) given[i] *= 100;
    std::vector<float> step(given.size(), 1000), expected = given;
    Deflate(run, 0.25f, absl::MakeSpan(expected));
    const RankOne added = deflation.Find(run, {.least = 0.25f, .most = 0.25f}, CopyOf(given), absl::MakeSpan(step));
    EXPECT_EQ(step, given);
    for (size_t i = 0; i < step.size(); ++i) {
      const size_t place = run.lead + i;
      const float left = added.left[place / run.columns], right = added.right[place % run.columns];
      ASSERT_EQ(step[i] + left * right, expected[i]) << i;
      ASSERT_LE(std::fabs(static_cast<double>(left) * right), added.most);
    }
  }
}

// What Find adds to a diagonal matrix along the largest of its directions, as a share of that.
double Added(const std::vector<float>& diagonal, const KeptShare& keep) {
  const size_t n = diagonal.size();
  std::vector<float> given(n * n), step(n * n);
  for (size_t i = 0; i < n; ++i) given[i * n + i] = diagonal[i];
  Deflation deflation;
  const RankOne added = deflation.Find({.columns = n}, keep, CopyOf(given), absl::MakeSpan(step));
  return static_cast<double>(added.left[0]) * added.right[0] / diagonal[0];
}

TEST_P(DeflationTest, WhatCountsByItsRatioToTheRestHasTheBitsOfTheLoopToo) {
  for (const size_t columns : {8, 16, 31, 100}) {
    std::vector<float> a = Numbers(columns * 23, static_cast<uint32_t>(columns)), step(a.size());
    const std::vector<float> expected = Expected(columns, {.least = 1.0f / 64}, a);
    ASSERT_NE(expected, Expected(columns, {.least = 1.0f / 64, .most = 1.0f / 64}, a)) << "it is within its bounds";
    Deflation deflation;
    const RankOne added = deflation.Find({.columns = columns}, {.least = 1.0f / 64}, CopyOf(a), absl::MakeSpan(step));
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(step[i] + added.left[i / columns] * added.right[i % columns], expected[i]) << columns << " " << i;
    }
  }
}

// The parts of rows at both ends of a run count as rows with zeros do.
TEST_P(DeflationTest, TheRatioToTheRestIsOfAllOfARun) {
  constexpr size_t kColumns = 32, kLead = 16;
  std::vector<float> whole = Numbers(kColumns * 12, 5), step(whole.size());
  std::fill_n(whole.begin(), kLead, 0.0f);
  std::fill_n(whole.end() - kLead, kLead, 0.0f);
  for (size_t i = kLead; i < kColumns; i += 2) whole[i] = -3;  // most of what is beside lies in the first, short row
  const auto left_of = [&](const MatrixRun& run, absl::Span<const float> given) {
    Deflation deflation;
    const absl::Span<float> room = absl::MakeSpan(step).subspan(0, given.size());
    const RankOne added = deflation.Find(run, {.least = 1.0f / 64}, CopyOf(given), room);
    return std::vector<float>(added.left, added.left + 12);
  };
  const absl::Span<const float> rows = whole, part = rows.subspan(kLead, whole.size() - 2 * kLead);
  const std::vector<float> of_rows = left_of({.columns = kColumns}, rows);
  const std::vector<float> of_run = left_of({.columns = kColumns, .lead = kLead}, part);
  for (size_t i = 0; i < of_rows.size(); ++i) ASSERT_NEAR(of_rows[i], of_run[i], 1e-4 * Norm(of_rows)) << i;
}

TEST_P(DeflationTest, TheLargestDirectionCountsAsItsRatioToTheRestSays) {
  constexpr KeptShare kKeep = {.least = 1.0f / 64};
  EXPECT_NEAR(Added({8, 2, 2, 2, 2}, kKeep), 16.0 / 64 - 1, 1e-6) << "a quarter of its squares are beside it";
  EXPECT_NEAR(Added({8, 0, 2, 0, 0}, kKeep), 4.0 / 64 - 1, 1e-6) << "a sixteenth";
  EXPECT_NEAR(Added({8, 0, 0, 0, 0}, kKeep), 1.0 / 64 - 1, 1e-6) << "but the least of it counts anyway";
  EXPECT_NEAR(Added({8, 4, 4, 4, 4}, kKeep), 0, 1e-6) << "half of the squares";
  EXPECT_NEAR(Added({8, 7, 7, 7, 7}, kKeep), 0, 1e-6) << "and no more than in full";
}

TEST_P(DeflationTest, ADirectionOfSeveralRowsOutweighsTheRestByAllOfThem) {
  const std::vector<float> given = {4, 0, 0, 0, 4, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0};
  std::vector<float> step(given.size());
  Deflation deflation;
  const RankOne added = deflation.Find({.columns = 4}, {.least = 1.0f / 64}, CopyOf(given), absl::MakeSpan(step));
  EXPECT_NEAR(added.left[0] * added.right[0] / 4, 8.0 / 32 - 1, 1e-6);
}

TEST_P(DeflationTest, BesideSeveralDirectionsTheBitsAreThoseOfTheLoopToo) {
  constexpr size_t kColumns = 31;
  std::vector<float> a = Numbers(kColumns * 23, 3), expected = a, beside = a;
  for (int i = 0; i < 3; ++i) beside = Expected(kColumns, {.least = 0, .most = 0}, beside);
  for (size_t i = 0; i < a.size(); ++i) expected[i] = expected[i] + 7.0f * beside[i];
  ScaleRemainder({.columns = kColumns}, 3, 8, absl::MakeSpan(a));
  EXPECT_EQ(std::memcmp(a.data(), expected.data(), 4 * a.size()), 0);
}

TEST_P(DeflationTest, TheLargestDirectionsStayAndTheOthersAreRaised) {
  constexpr size_t kN = 16;
  std::vector<float> a(kN * kN);
  for (size_t i = 0; i < kN; ++i) a[i * kN + i] = i % 8 == 0 ? 100.0f - static_cast<float>(i) : 1.0f;
  std::vector<float> expected = a;
  for (size_t i = 0; i < kN; ++i) {
    if (i % 8 != 0) expected[i * kN + i] = 4;
  }
  ScaleRemainder({.columns = kN}, 2, 4, absl::MakeSpan(a));
  EXPECT_EQ(a, expected);
}

TEST_P(DeflationTest, OfRankOneTheShareIsLeftAndOfTheRestAll) {
  constexpr size_t kRows = 20, kColumns = 40;
  std::vector<float> a(kRows * kColumns), rest(kRows * kColumns);
  for (size_t i = 0; i < a.size(); ++i) {
    const size_t r = i / kColumns, c = i % kColumns;
    a[i] = 5 * static_cast<float>(1 + r % 3) * (c % 2 == 0 ? 1.0f : -0.5f);
    rest[i] = r == c ? 0.01f : 0;
  }
  std::vector<float> sum = a;
  for (size_t i = 0; i < a.size(); ++i) sum[i] += rest[i];
  Deflate({.columns = kColumns}, 0, absl::MakeSpan(a));
  EXPECT_LT(Norm(a), 1e-3);
  Deflate({.columns = kColumns}, 0, absl::MakeSpan(sum));
  EXPECT_NEAR(Norm(sum), Norm(rest), 0.1 * Norm(rest));
}

// The part of a run that ends within rows is that of the same run with zeros around it.
TEST_P(DeflationTest, PartsOfRowsAreRowsWithZeros) {
  constexpr size_t kColumns = 32, kLead = 16;
  std::vector<float> whole = Numbers(kColumns * 12, 5);
  std::fill_n(whole.begin(), kLead, 0.0f);
  std::fill_n(whole.end() - kLead, kLead, 0.0f);
  std::vector<float> run(whole.begin() + kLead, whole.end() - kLead);
  Deflate({.columns = kColumns}, 0.5f, absl::MakeSpan(whole));
  Deflate({.columns = kColumns, .lead = kLead}, 0.5f, absl::MakeSpan(run));
  for (size_t i = 0; i < run.size(); ++i) ASSERT_NEAR(run[i], whole[i + kLead], 1e-5) << i;
}

// A loss that is summed up, or a gradient of a few tens of thousands of rows, changes the scale and nothing else.
TEST_P(DeflationTest, GoesWithTheScaleOfAStep) {
  constexpr size_t kColumns = 16;
  const std::vector<float> numbers = Numbers(kColumns * 12, 7);
  std::vector<float> expected = numbers;
  Deflate({.columns = kColumns}, 0.25f, absl::MakeSpan(expected));
  for (const float scale : {0x1p-28f, 0x1p-20f, 0x1p20f, 0x1p28f}) {
    std::vector<float> step = numbers;
    for (float& number : step) number *= scale;
    Deflate({.columns = kColumns}, 0.25f, absl::MakeSpan(step));
    for (size_t i = 0; i < step.size(); ++i) ASSERT_NEAR(step[i] / scale, expected[i], 1e-5) << scale << " " << i;
  }
}

TEST_P(DeflationTest, LeavesAloneWhatHasNoDirectionThatFloatsHold) {
  constexpr float kMost = std::numeric_limits<float>::max();
  for (const float number : {0.0f, 1e-30f, 1e25f, kMost, std::numeric_limits<float>::infinity()}) {
    std::vector<float> a(64, number);
    Deflate({.columns = 8}, 0.5f, absl::MakeSpan(a));
    EXPECT_EQ(a, std::vector<float>(64, number));
  }
}

TEST_P(DeflationTest, WithoutDecayAStepIsFoundWithoutTheValues) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values(40, kNone), velocity(40, 2), gradient(40, 3);
  std::vector<float> step(40);
  FindStep(MomentumUpdate{.momentum = 0.5f}, absl::MakeConstSpan(gradient),
           {{values.data(), nullptr}, {velocity.data(), nullptr}}, step.data());
  EXPECT_EQ(step, std::vector<float>(40, 4));
  FindStep(SgdUpdate{}, absl::MakeConstSpan(gradient), {{values.data(), nullptr}}, step.data());
  EXPECT_EQ(step, gradient);
  const std::vector<float> square(40, 4);
  FindStep(SquaresUpdate{.learning_rate = 8, .keep = 1, .gain = 0}, absl::MakeConstSpan(gradient),
           {{values.data(), nullptr}, {square.data(), nullptr}}, step.data());
  EXPECT_EQ(step, std::vector<float>(40, 12));
  FindStep(AdamUpdate{.step_size = 8, .beta1 = 0.5f, .gain = 1, .beta2 = 1}, absl::MakeConstSpan(gradient),
           {{values.data(), nullptr}, {velocity.data(), nullptr}, {square.data(), nullptr}}, step.data());
  EXPECT_EQ(step, std::vector<float>(40, 16));
}

TEST(CorrectionTest, OfFtrlGoesIntoTheGradient) {
  constexpr size_t kRows = 9, kColumns = 37, kN = kRows * kColumns;
  std::vector<float> gradient, given, left, right, values(kN, 0.3f), z(kN, -0.2f), n(kN, 0.5f), step(kN);
  for (size_t i = 0; i < kN; ++i) gradient.push_back(std::sin(static_cast<float>(i)));
  for (size_t i = 0; i < kRows; ++i) left.push_back(0.1f * static_cast<float>(i) - 0.4f);
  for (size_t i = 0; i < kColumns; ++i) right.push_back(std::cos(static_cast<float>(i)));
  std::vector<float> expected_values = values, expected_z = z, expected_n = n;
  const std::vector<UpdatedArray> arrays = {{values.data(), values.data()}, {z.data(), z.data()}, {n.data(), n.data()}};
  FtrlUpdate update{0.1f, 1, 0.05f, 0.01f, 0.01f};
  FindStep(update, absl::MakeConstSpan(gradient), arrays, step.data());
  for (size_t i = 0; i < kN; ++i) {
    ASSERT_EQ(step[i], gradient[i] + 0.01f * 0.3f) << i;
    given.push_back(step[i] + left[i / kColumns] * right[i % kColumns]);
  }
  update.correction = {{.columns = kColumns}, left.data(), right.data(), 1};
  ASSERT_TRUE(ApplyUpdate(update, absl::MakeConstSpan(gradient), arrays));
  ASSERT_TRUE(ApplyUpdate(FtrlUpdate{0.1f, 1, 0.05f, 0.01f}, absl::MakeConstSpan(given),
                          {{expected_values.data(), expected_values.data()},
                           {expected_z.data(), expected_z.data()},
                           {expected_n.data(), expected_n.data()}}));
  EXPECT_EQ(values, expected_values);
  EXPECT_EQ(z, expected_z);
  EXPECT_EQ(n, expected_n);
}

// As bfloat16 the values would be infinite; all of it is the correction's.
template <class Rule>
void ExpectOverflow(Rule update) {
  const std::vector<float> left = {1}, right = {1, 3.4e38f}, gradient = {1, 1};
  update.correction = {{.columns = 2}, left.data(), right.data(), 3.4e38};
  std::vector<std::vector<float>> arrays(1 + Rule::kSlots, {0, 0});
  arrays[0] = {1, 2};
  const std::vector<std::vector<float>> before = arrays;
  std::vector<UpdatedArray> in_place;
  for (std::vector<float>& array : arrays) in_place.push_back({array.data(), array.data()});
  Magnitudes bounds = {2, 1, 1};
  EXPECT_FALSE(ApplyUpdate(update, absl::MakeConstSpan(gradient), in_place, &bounds));
  EXPECT_EQ(arrays, before);
}

TEST_P(DeflationTest, ACorrectionThatOverflowsChangesNothing) {
  ExpectOverflow(SgdUpdate{4});
  ExpectOverflow(MomentumUpdate{4, 0.9f});
  ExpectOverflow(SquaresUpdate{1, 0.99f, 0.01f, 0, 1e-8f});
  ExpectOverflow(MakeAdamUpdate(0.001, 0.9, 0.999, 1e-8, 3));
}

}  // namespace
}  // namespace downpour
