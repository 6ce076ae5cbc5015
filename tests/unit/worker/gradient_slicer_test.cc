#include "worker/model/gradient_slicer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

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
  const SliceValues cut = slicer.SliceGradients({{0, Numbers({300, 400})}, {1, Numbers({6, 8})}});
  EXPECT_THAT(OfSlice(cut, 0), ElementsAre(300, 400));
  EXPECT_THAT(OfSlice(cut, 1), ElementsAre(::testing::FloatNear(3, 1e-5), ::testing::FloatNear(4, 1e-5)));
}

TEST(GradientSlicerTest, AVariableIsCutWhereItsSlicesBegin) {
  ModelSpec model;
  model.variables = {{.name = "table", .shape = {2 * kMaxSliceElements + 1}}};
  const SliceGrid grid = GridOf(model).value();
  std::vector<float> numbers(2 * kMaxSliceElements + 1);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const SliceValues cut = GradientSlicer(&grid, {}).SliceGradients({{0, Numbers(numbers)}});
  ASSERT_EQ(cut.size(), grid.size());
  for (const Slice& slice : grid.slices) {
    const std::vector<float> values = OfSlice(cut, ToNumber(slice.id));
    ASSERT_EQ(values.size(), static_cast<size_t>(slice.elements));
    EXPECT_EQ(values.front(), static_cast<float>(slice.offset));
  }
}

}  // namespace
}  // namespace downpour
