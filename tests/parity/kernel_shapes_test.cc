// What a device's kernels treat apart: unaligned beginnings, storages of two kinds, more rows and columns than threads,
// more than a warp; and numbers that are not finite. Exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tests/parity/parity_fixture.h"

namespace downpour {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class ShapesParityTest : public BackendParityTest {
 protected:
  // A matrix of `rows` x `cols` without gaps that begins so many numbers behind what is aligned.
  static Matrix Within(DeviceMatrix& row, int64_t offset, int64_t rows, int64_t cols) {
    return {row.view().data + offset, rows, cols};
  }
  Numbers As(FloatFormat format, const Numbers& numbers) const {
    return format == FloatFormat::kFactor ? Stored(numbers) : numbers;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ShapesParityTest, testing::ValuesIn(DevicesUnderTest()), NameOfDevice);

TEST_P(ShapesParityTest, MatricesMayBeginAnywhereAndBeOfTwoStorages) {
  const int64_t rows = 3, cols = 8, most = 4, all = rows * cols + most + 3;
  for (int trial = 0; trial < 2 * 2 * 5 * 5; ++trial) {
    const int64_t at_x = trial % 5, at_y = trial / 5 % 5;
    const FloatFormat of_x = trial % 2 ? FloatFormat::kFp32 : FloatFormat::kFactor;
    const FloatFormat of_y = trial / 50 ? FloatFormat::kFp32 : FloatFormat::kFactor;
    const Numbers from = random_.Matrix(1, all), to = random_.Matrix(1, all), bias = random_.Matrix(1, cols + most);
    DeviceMatrix x(*backend_, from, 0, of_x), y(*backend_, to, 0, of_y), z(*backend_, to, 0, of_y);
    DeviceMatrix biased(*backend_, from, 0, of_x), both(*backend_, to, 0, of_y), db = Vector(bias);
    const Matrix view = Within(x, at_x, rows, cols);
    ASSERT_TRUE(backend_->Copy(view, Within(y, at_y, rows, cols)).ok());
    ASSERT_TRUE(backend_->Accumulate(view, Within(z, at_y, rows, cols)).ok());
    ASSERT_TRUE(backend_->AddBias(db.vector().subspan(at_y, cols), Within(biased, at_x, rows, cols)).ok());
    const Matrix dx = Within(both, at_y, rows, cols);
    ASSERT_TRUE(backend_->ActivateBackward(ActivationFunction::kRelu, view, dx, dx).ok());
    Numbers copied = to, summed = to, with_bias = from, passed = to;
    for (int64_t i = 0; i < rows * cols; ++i) {
      const double v = from.at(0, at_x + i);
      copied.at(0, at_y + i) = v;
      summed.at(0, at_y + i) = static_cast<float>(to.at(0, at_y + i) + v);
      with_bias.at(0, at_x + i) = static_cast<float>(v + bias.at(0, at_y + i % cols));
      if (v <= 0) passed.at(0, at_y + i) = 0;
    }
    EXPECT_EQ(y.Read().values, copied.values) << at_x << " " << at_y;
    EXPECT_EQ(z.Read().values, As(of_y, summed).values) << at_x << " " << at_y;
    EXPECT_EQ(biased.Read().values, As(of_x, with_bias).values) << at_x << " " << at_y;
    EXPECT_EQ(both.Read().values, passed.values) << at_x << " " << at_y;
  }
}

// More than threads in a grid: each then takes several.
TEST_P(ShapesParityTest, MatricesMayBeLongAndWide) {
  struct Shape {
    int64_t rows, cols, gap, offset;
  };
  const int64_t wide = (int64_t{1} << 20) + 300;
  for (const Shape& s : {Shape{5000, 3, 0, 0}, Shape{5000, 3, 1, 0}, Shape{5000, 8, 4, 0}, Shape{2100, 300, 1, 0},
                         Shape{1, wide, 0, 1}, Shape{1, 4 * wide, 0, 0}}) {
    const Numbers from = random_.Matrix(s.rows, s.cols + s.offset), bias = random_.Matrix(1, s.cols);
    DeviceMatrix x(*backend_, from, s.gap), y(*backend_, from, s.gap), db = Vector(bias);
    const auto part = [&](DeviceMatrix& m) { return m.view().Columns(s.offset, s.cols); };
    ASSERT_TRUE(backend_->AddBias(db.vector(), part(x)).ok());
    ASSERT_TRUE(backend_->Activate(ActivationFunction::kRelu, part(x), part(y)).ok());
    Numbers with_bias = from, active = from;
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t c = 0; c < s.cols; ++c) {
        const int64_t at = c + s.offset;
        with_bias.at(r, at) = static_cast<float>(from.at(r, at) + bias.at(0, c));
        active.at(r, at) = std::max(with_bias.at(r, at), 0.0);
      }
    }
    EXPECT_TRUE(x.Read().values == Stored(with_bias).values) << s.rows << " x " << s.cols;
    EXPECT_TRUE(y.Read().values == Stored(active).values) << s.rows << " x " << s.cols;
  }
}

// Of equals the first, wherever the others are. A row that holds a NaN has none, whichever label it has.
TEST_P(ShapesParityTest, CountCorrectFindsTheFirstOfTheLargest) {
  for (int trial = 0; trial < 60; ++trial) {
    const std::vector<int64_t> widths = {2, 31, 32, 33, 64, 100, 1000, random_.Between(2, 70)};
    const int64_t rows = trial % 7 == 6 ? 300 : random_.Between(1, 20), cols = widths[trial % widths.size()];
    Numbers outputs(rows, cols);
    std::vector<int32_t> labels;
    uint64_t correct = 0;
    for (int64_t r = 0; r < rows; ++r) {
      int64_t best = 0;
      bool holds_nan = false;
      const int64_t most = random_.Between(0, 3);
      for (int64_t c = 0; c < cols; ++c) {
        double& v = outputs.at(r, c);
        v = static_cast<double>(random_.Between(0, most)) - 2;
        const double odd[] = {kNan, -kInfinity, kInfinity};
        if (trial % 5 == 4 && random_.Between(0, 2 * cols) == 0) v = odd[random_.Between(0, 2)];
        if (v > outputs.at(r, best)) best = c;
        holds_nan |= std::isnan(v);
      }
      labels.push_back(static_cast<int32_t>(random_.Between(0, 1) ? best : random_.Between(0, cols - 1)));
      correct += labels.back() == best && !holds_nan;
    }
    DeviceMatrix x(*backend_, outputs, trial % 3);
    const Buffer memory = UploadLabels(labels);
    const BatchTotals totals =
        Totals([&](BatchTotals* t) { return backend_->CountCorrect(x.view(), LabelView(memory, labels.size()), t); });
    EXPECT_EQ(totals.correct, correct) << rows << " x " << cols;
  }
}

// An output that is -infinity has no share; where it stands at the label, the loss is infinite.
TEST_P(ShapesParityTest, SoftmaxCrossEntropyOfInfinities) {
  for (int64_t cols : {2, 33, 70}) {
    Numbers logits(2, cols);
    logits.at(0, 0) = logits.at(1, cols - 1) = -kInfinity;
    DeviceMatrix x(*backend_, logits), dx = Unset(2, cols);
    const auto loss = [&](const std::vector<int32_t>& labels) {
      const Buffer memory = UploadLabels(labels);
      return Totals([&](BatchTotals* t) {
               return backend_->SoftmaxCrossEntropy(x.view(), LabelView(memory, labels.size()), 2, dx.view(), t);
             })
          .loss;
    };
    EXPECT_NEAR(loss({static_cast<int32_t>(cols - 1), 0}), 2 * std::log(static_cast<double>(cols - 1)), 1e-5);
    const Numbers gradient = dx.Read();
    EXPECT_EQ(gradient.at(0, 0), 0);
    EXPECT_EQ(gradient.at(1, cols - 1), 0);
    EXPECT_EQ(loss({0, 0}), kInfinity);
    for (double v : dx.Read().values) EXPECT_TRUE(std::isfinite(v));
  }
}

TEST_P(ShapesParityTest, ReluBackwardPassesNothingThroughAUnitThatIsOff) {
  for (int64_t cols : {3, 4}) {
    Numbers y(4, cols), dy(4, cols);
    std::fill(y.values.begin() + 2 * cols, y.values.begin() + 3 * cols, 1.0);
    std::fill(y.values.begin() + 3 * cols, y.values.end(), kNan);
    std::fill(dy.values.begin(), dy.values.begin() + cols, kInfinity);
    std::fill(dy.values.begin() + cols, dy.values.end(), kNan);
    DeviceMatrix out(*backend_, y), given(*backend_, dy), dx = Unset(4, cols);
    ASSERT_TRUE(backend_->ActivateBackward(ActivationFunction::kRelu, out.view(), given.view(), dx.view()).ok());
    const Numbers passed = dx.Read();
    for (int64_t c = 0; c < cols; ++c) {
      EXPECT_EQ(passed.at(0, c), 0);
      EXPECT_EQ(passed.at(1, c), 0);
      EXPECT_TRUE(std::isnan(passed.at(2, c)));
      EXPECT_EQ(passed.at(3, c), 0);
    }
  }
}

}  // namespace
}  // namespace downpour
