#include "chief/known/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "runtime/prng.h"

namespace downpour {
namespace {

SliceGrid GridOf(const std::vector<int64_t>& elements) {
  SliceGrid grid;
  for (size_t i = 0; i < elements.size(); ++i) {
    grid.slices.push_back({.id = SliceId{static_cast<uint32_t>(i)}, .elements = elements[i]});
  }
  return grid;
}

std::vector<int64_t> LoadsOf(const SliceGrid& grid, const std::vector<uint32_t>& server_of, uint32_t servers) {
  std::vector<int64_t> loads(servers);
  for (const Slice& slice : grid.slices) loads.at(server_of.at(ToNumber(slice.id))) += slice.bytes();
  return loads;
}

// Nobody knows how large they will be: each server gets as many as the others, or one more, whatever else it holds.
TEST(PlacementTest, BucketsAreSpreadEvenly) {
  SliceGrid grid = GridOf({1000, 10, 10});
  grid.buckets = 10;
  for (uint32_t i = 0; i < grid.buckets; ++i) {
    grid.slices.push_back({static_cast<SliceId>(grid.slices.size()), kNoVariable, i, 0});
  }
  for (const uint32_t servers : {1u, 3u, 4u, 10u, 12u}) {
    const std::vector<uint32_t> server_of = PlaceSlices(grid, servers);
    std::vector<uint32_t> buckets(servers);
    for (uint32_t i = 0; i < grid.buckets; ++i) ++buckets.at(server_of[ToNumber(grid.BucketAt(i))]);
    const auto [fewest, most] = std::minmax_element(buckets.begin(), buckets.end());
    EXPECT_LE(*most - *fewest, 1u) << servers;
    if (servers == 4) {
      EXPECT_EQ(buckets[server_of[0]], *fewest) << "who holds most of the rest";
    }
  }
}

TEST(PlacementTest, NoServerHoldsMoreThanTheMeanAndOneLargestSlice) {
  Prng prng(1);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<int64_t> elements(1 + prng.Below(60));
    for (int64_t& e : elements) e = 1 + static_cast<int64_t>(prng.Below(prng.Chance(0.5) ? 10 : kMaxSliceElements));
    const SliceGrid grid = GridOf(elements);
    const auto servers = static_cast<uint32_t>(1 + prng.Below(12));
    const std::vector<uint32_t> server_of = PlaceSlices(grid, servers);
    const std::vector<int64_t> loads = LoadsOf(grid, server_of, servers);
    const int64_t all = std::accumulate(loads.begin(), loads.end(), int64_t{0});
    const int64_t largest = 4 * *std::max_element(elements.begin(), elements.end());
    ASSERT_LE(*std::max_element(loads.begin(), loads.end()), all / servers + largest) << "trial " << trial;
    ASSERT_EQ(server_of, PlaceSlices(grid, servers)) << "trial " << trial;
    ASSERT_EQ(all, 4 * std::accumulate(elements.begin(), elements.end(), int64_t{0})) << "trial " << trial;
  }
}

TEST(PlacementTest, EqualSlicesAreSpreadEvenly) {
  const SliceGrid grid = GridOf(std::vector<int64_t>(12, 1000));
  EXPECT_EQ(LoadsOf(grid, PlaceSlices(grid, 4), 4), std::vector<int64_t>(4, 12000));
}

TEST(PlacementTest, MoreServersThanSlicesLeaveSomeEmpty) {
  const SliceGrid grid = GridOf({5, 5});
  std::vector<int64_t> loads = LoadsOf(grid, PlaceSlices(grid, 5), 5);
  std::sort(loads.begin(), loads.end());
  EXPECT_EQ(loads, (std::vector<int64_t>{0, 0, 0, 20, 20}));
}

}  // namespace
}  // namespace downpour
