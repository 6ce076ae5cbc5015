#include "model/gradient_slicer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tensor/apply_kernels.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;

Payload Numbers(const std::vector<float>& numbers) { return Payload::CopyOf(numbers.data(), numbers.size() * 4); }

std::vector<float> OfSlice(const SliceValues& cut, uint32_t slice) {
  for (const auto& [id, values] : cut) {
    if (ToNumber(id) == slice) return {values.floats().begin(), values.floats().end()};
  }
  return {};
}

TEST(GradientSlicerTest, WhatIsNotTrainedIsNotClippedNorPartOfTheNorm) {
  ModelSpec model;
  model.variables = {{.name = "mean", .shape = {2}, .trainable = false}, {.name = "weight", .shape = {2}}};
  const SliceGrid grid = GridOf(model).value();
  GradientSlicer slicer(&grid, {.clip_value = 100, .clip_norm = 5});
  const SliceValues cut = slicer.SliceGradients({}, {{0, Numbers({300, 400})}, {1, Numbers({6, 8})}});
  EXPECT_THAT(OfSlice(cut, 0), ElementsAre(300, 400));
  EXPECT_THAT(OfSlice(cut, 1), ElementsAre(::testing::FloatNear(3, 1e-5), ::testing::FloatNear(4, 1e-5)));
}

TEST(GradientSlicerTest, AVariableIsCutWhereItsSlicesBegin) {
  ModelSpec model;
  model.variables = {{.name = "table", .shape = {2 * kMaxSliceElements + 1}}};
  const SliceGrid grid = GridOf(model).value();
  std::vector<float> numbers(2 * kMaxSliceElements + 1);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const SliceValues cut = GradientSlicer(&grid, {}).SliceGradients({}, {{0, Numbers(numbers)}});
  ASSERT_EQ(cut.size(), grid.size());
  for (const Slice& slice : grid.slices) {
    const std::vector<float> values = OfSlice(cut, ToNumber(slice.id));
    ASSERT_EQ(values.size(), static_cast<size_t>(slice.elements));
    EXPECT_EQ(values.front(), static_cast<float>(slice.offset));
  }
}

// One slice of two numbers whose gradients travel as bfloat16.
class ResidualTest : public ::testing::Test {
 protected:
  static SliceGrid Grid() {
    ModelSpec model;
    model.variables = {{.name = "weight", .shape = {2}}};
    return GridOf(model, WireFormat::kBf16).value();
  }
  // As it travels.
  std::vector<float> Cut(Step step, std::vector<float> gradient) {
    const SliceValues cut = slicer.SliceGradients({LeaseId{7}, step}, {{0, Numbers(gradient)}});
    std::vector<float> widened(2);
    WidenBf16(cut.front().second.as<Bf16>(), widened.data());
    return widened;
  }
  void Settle(Step step, bool counted) { slicer.Settle({{LeaseId{7}, step, SliceId{0}, counted}}); }
  // What is left of all that was settled: it goes with the next one, of 0.
  std::vector<float> Residual() { return Cut(1000, {0, 0}); }

  const SliceGrid grid = Grid();
  GradientSlicer slicer{&grid, {}};
};

TEST_F(ResidualTest, WhatRoundingLeavesOutGoesWithTheNextOne) {
  const std::vector<float> sent = Cut(1, {1.001f, 2});
  Settle(1, true);
  EXPECT_NEAR(Residual()[0], 1.001f - sent[0], 1e-5);
}

TEST_F(ResidualTest, MovesOnlyWithWhatCounted) {
  const std::vector<float> sent = Cut(1, {1.001f, 2});
  Settle(1, true);
  Cut(2, {1.003f, 3});
  Settle(2, false);
  EXPECT_NEAR(Residual()[0], 1.001f - sent[0], 1e-5) << "as if the one between had not been";
}

TEST_F(ResidualTest, WhatIsSettledLateTakesItsOwnShareBackAlone) {
  double exact = 0, counted = 0;
  for (Step step = 1; step <= 100; ++step) {
    const float gradient = 1 + 0.001f * static_cast<float>(step);
    const std::vector<float> sent = Cut(step, {gradient, 0});
    const bool counts = step % 3 != 0;
    exact += counts ? gradient : 0;
    counted += counts ? sent[0] : 0;
    if (step > 2) Settle(step - 2, (step - 2) % 3 != 0);  // two are in flight
  }
  Settle(99, false);
  Settle(100, true);
  EXPECT_NEAR(counted + Residual()[0], exact, 1e-3) << "each rounding alone may leave out 0.004";
}

TEST_F(ResidualTest, OfAStepThatIsComputedForOtherSlicesTheNewerOneIsInVain) {
  const std::vector<float> sent = Cut(1, {1.001f, 2});
  Cut(1, {1.5f, 2});
  Settle(1, false);
  Settle(1, true);
  EXPECT_NEAR(Residual()[0], 1.001f - sent[0], 1e-5);
}

TEST_F(ResidualTest, WhatWasNotCutHereSettlesNothing) {
  Cut(1, {1.001f, 2});
  Settle(1, true);
  const std::vector<float> before = Residual();
  Settle(1000, false);
  Settle(1, false);
  EXPECT_EQ(Residual(), before);
}

}  // namespace
}  // namespace downpour
