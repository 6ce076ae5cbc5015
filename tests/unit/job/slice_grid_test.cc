#include "job/slice_grid.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

VariableSpec OfSize(int64_t elements) { return {"v", {elements}, Initializer::kZeros, 0, 0}; }

// What holds of every grid: dense ids, and each variable covered in order without a gap.
void ExpectCovers(const SliceGrid& grid) {
  size_t next = 0;
  for (size_t v = 0; v < grid.variables.size(); ++v) {
    int64_t covered = 0;
    for (; next < grid.size() && grid.slices[next].variable == v; ++next) {
      const Slice& slice = grid.slices[next];
      EXPECT_EQ(ToNumber(slice.id), next);
      EXPECT_EQ(slice.offset, covered);
      EXPECT_GT(slice.elements, 0);
      EXPECT_LE(slice.elements, kMaxSliceElements);
      EXPECT_EQ(slice.offset % 16, 0);
      covered += slice.elements;
    }
    EXPECT_EQ(covered, grid.variables[v].elements());
  }
  EXPECT_EQ(next, grid.size());
}

TEST(SliceGrid, CoversVariablesOfAnySizeExactly) {
  for (int64_t elements :
       {1, 15, 16, 17, 1023, 1024, 1025, 16384, 16385, 99991, 262143, 262144, 262145, 4194304, 4194305, 50000017}) {
    SCOPED_TRACE(elements);
    ExpectCovers(MakeSliceGrid({OfSize(elements), OfSize(7), OfSize(elements)}));
  }
}

TEST(SliceGrid, NoVariablesAreNoSlices) { EXPECT_EQ(MakeSliceGrid({}).size(), 0u); }

TEST(SliceGrid, AVariableThatFitsIsOneSlice) {
  const SliceGrid grid = MakeSliceGrid({OfSize(784 * 256), OfSize(256), OfSize(kMaxSliceElements), OfSize(10)});
  ExpectCovers(grid);
  EXPECT_EQ(grid.size(), 4u);
}

TEST(SliceGrid, LargeModelsUseFullSlices) {
  const SliceGrid grid = MakeSliceGrid({OfSize(int64_t{64} << 20)});
  ExpectCovers(grid);
  EXPECT_EQ(grid.size(), 256u);
  for (const Slice& slice : grid.slices) EXPECT_EQ(slice.bytes(), 1 << 20);
}

TEST(SliceGrid, KnowsItsSlices) {
  const SliceGrid grid = MakeSliceGrid({OfSize(4 * kMaxSliceElements)});
  EXPECT_TRUE(grid.Contains(SliceId{3}));
  EXPECT_FALSE(grid.Contains(SliceId{4}));
  EXPECT_EQ(grid.at(SliceId{3}).offset, 3 * kMaxSliceElements);
}

TEST(SliceGrid, FollowsFromTheModelAlone) {
  ModelSpec model;
  model.inputs = {{"x", {100}}};
  model.layers = {{"dense_0", {"x"}, DenseSpec{.units = 100}}};
  const absl::StatusOr<SliceGrid> grid = GridOf(model);
  ASSERT_TRUE(grid.ok()) << grid.status();
  ExpectCovers(*grid);
  EXPECT_EQ(grid->variables.size(), 2u);
  model.layers[0].from = {"nobody"};
  EXPECT_EQ(GridOf(model).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SliceGrid, HowNumbersTravelChangesTheirBytesAndNoSlice) {
  ModelSpec model;
  model.inputs = {{"x", {3}}};
  model.layers = {{"y", {"x"}, DenseSpec{.units = 3}}};
  const SliceGrid floats = *GridOf(model), halves = *GridOf(model, WireFormat::kBf16);
  ASSERT_EQ(floats.size(), halves.size());
  for (const Slice& slice : floats.slices) {
    EXPECT_EQ(halves.at(slice.id).bytes(), slice.bytes());
    EXPECT_EQ(floats.WireBytes(slice.id), static_cast<size_t>(slice.bytes()));
    EXPECT_EQ(halves.WireBytes(slice.id), static_cast<size_t>(slice.bytes()) / 2);
  }
}

}  // namespace
}  // namespace downpour
