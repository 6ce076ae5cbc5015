#include "chief/known/slice_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

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
TEST(SpreadSlicesTest, BucketsAreSpreadEvenly) {
  SliceGrid grid = GridOf({1000, 10, 10});
  grid.buckets = 10;
  for (uint32_t i = 0; i < grid.buckets; ++i) {
    grid.slices.push_back({static_cast<SliceId>(grid.slices.size()), kNoVariable, i, 0});
  }
  for (const uint32_t servers : {1u, 3u, 4u, 10u, 12u}) {
    const std::vector<uint32_t> server_of = SpreadSlices(grid, servers);
    std::vector<uint32_t> buckets(servers);
    for (uint32_t i = 0; i < grid.buckets; ++i) ++buckets.at(server_of[ToNumber(grid.BucketAt(i))]);
    const auto [fewest, most] = std::minmax_element(buckets.begin(), buckets.end());
    EXPECT_LE(*most - *fewest, 1u) << servers;
    if (servers == 4) {
      EXPECT_EQ(buckets[server_of[0]], *fewest) << "who holds most of the rest";
    }
  }
}

TEST(SpreadSlicesTest, NoServerHoldsMoreThanTheMeanAndOneLargestSlice) {
  Prng prng(1);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<int64_t> elements(1 + prng.Below(60));
    for (int64_t& e : elements) e = 1 + static_cast<int64_t>(prng.Below(prng.Chance(0.5) ? 10 : kMaxSliceElements));
    const SliceGrid grid = GridOf(elements);
    const auto servers = static_cast<uint32_t>(1 + prng.Below(12));
    const std::vector<uint32_t> server_of = SpreadSlices(grid, servers);
    const std::vector<int64_t> loads = LoadsOf(grid, server_of, servers);
    const int64_t all = std::accumulate(loads.begin(), loads.end(), int64_t{0});
    const int64_t largest = 4 * *std::max_element(elements.begin(), elements.end());
    ASSERT_LE(*std::max_element(loads.begin(), loads.end()), all / servers + largest) << "trial " << trial;
    ASSERT_EQ(server_of, SpreadSlices(grid, servers)) << "trial " << trial;
    ASSERT_EQ(all, 4 * std::accumulate(elements.begin(), elements.end(), int64_t{0})) << "trial " << trial;
  }
}

TEST(SpreadSlicesTest, EqualSlicesAreSpreadEvenly) {
  const SliceGrid grid = GridOf(std::vector<int64_t>(12, 1000));
  EXPECT_EQ(LoadsOf(grid, SpreadSlices(grid, 4), 4), std::vector<int64_t>(4, 12000));
}

TEST(SpreadSlicesTest, MoreServersThanSlicesLeaveSomeEmpty) {
  const SliceGrid grid = GridOf({5, 5});
  std::vector<int64_t> loads = LoadsOf(grid, SpreadSlices(grid, 5), 5);
  std::sort(loads.begin(), loads.end());
  EXPECT_EQ(loads, (std::vector<int64_t>{0, 0, 0, 20, 20}));
}

constexpr ServerId kFirst{0, Incarnation{11}}, kSecond{1, Incarnation{12}};

// Three slices in term 4: the first server has 0 and 2, the second one 1.
class SlicePlacementTest : public ::testing::Test {
 protected:
  SlicePlacementTest() {
    placement.Begin(4);
    placement.Add(kSecond, "ps-1", "h2:1");
    placement.Add(kFirst, "ps-0", "h1:1");
    for (const uint32_t slice : {2u, 0u}) placement.Move(SliceId{slice}, kFirst);
    placement.Move(SliceId{1}, kSecond);
  }
  std::vector<SliceId> SlicesOf(ServerId id) const { return placement.At(id).slices; }

  const SliceGrid grid = GridOf({5, 5, 5});
  SlicePlacement placement{grid};
};

TEST_F(SlicePlacementTest, TellsWhereEachSliceIs) {
  EXPECT_EQ(SlicesOf(kFirst), (std::vector{SliceId{0}, SliceId{2}})) << "ascending";
  EXPECT_EQ(placement.epochs(), (std::vector<SliceEpoch>(3, {4, 1})));
  const Placement message = placement.ToMessage(Incarnation{7}, 12);
  EXPECT_EQ(message.to, Incarnation{7});
  EXPECT_EQ(message.term, 4u);
  EXPECT_EQ(message.number, 3u);
  EXPECT_EQ(message.train_examples, 12u);
  ASSERT_EQ(message.servers.size(), 2u);
  EXPECT_EQ(message.servers[0].name, "ps-0") << "in the order of their numbers";
  EXPECT_EQ(message.servers[1].incarnation, Incarnation{12});
  EXPECT_EQ(message.servers[1].endpoint, "h2:1");
  ASSERT_EQ(message.slices.size(), 3u);
  EXPECT_EQ(message.slices[1].slice, SliceId{1});
  EXPECT_EQ(message.slices[1].server, 1u);
  EXPECT_EQ(message.slices[2].server, 0u);
}

// A server that came later: what it does not get stays where it is.
TEST_F(SlicePlacementTest, ASliceMovesToAServerThatCameLater) {
  const ServerId third{2, Incarnation{13}};
  placement.Add(third, "ps-2", "h3:1");
  EXPECT_EQ(placement.number(), 3u) << "no slice is there yet";
  placement.Move(SliceId{0}, third);
  EXPECT_EQ(placement.ServerOf(SliceId{0}), third);
  EXPECT_EQ(placement.epochs(), (std::vector<SliceEpoch>{{4, 2}, {4, 1}, {4, 1}}));
  EXPECT_EQ(placement.number(), 4u) << "workers are told";
  EXPECT_EQ(SlicesOf(kFirst), std::vector{SliceId{2}});
  EXPECT_EQ(SlicesOf(third), std::vector{SliceId{0}});
  EXPECT_EQ(placement.ToMessage(Incarnation{7}, 12).slices[0].server, 2u);
}

TEST_F(SlicePlacementTest, ASliceThatMovesToWhereItIsGetsAnotherEpoch) {
  placement.Move(SliceId{2}, kFirst);
  EXPECT_EQ(SlicesOf(kFirst), (std::vector{SliceId{0}, SliceId{2}}));
  EXPECT_EQ(placement.EpochOf(SliceId{2}), (SliceEpoch{4, 2}));
}

// While one takes over from the other both have the same number.
TEST_F(SlicePlacementTest, ASuccessorHasItsPredecessorsPlaceInTheOrder) {
  const ServerId successor{0, Incarnation{20}};
  placement.Add(successor, "ps-0", "h9:1");
  for (const uint32_t slice : {0u, 2u}) placement.Move(SliceId{slice}, successor);
  placement.Remove(kFirst);
  EXPECT_EQ(placement.Find(Incarnation{11}), nullptr);
  EXPECT_EQ(*placement.FindNumber(0), successor);
  EXPECT_EQ(placement.FindNumber(2), nullptr);
  const Placement message = placement.ToMessage(Incarnation{7}, 12);
  ASSERT_EQ(message.servers.size(), 2u);
  EXPECT_EQ(message.servers[0].incarnation, Incarnation{20});
  EXPECT_EQ(message.slices[2].server, 0u);
}

TEST_F(SlicePlacementTest, NoServerIsRemovedWithItsSlices) { EXPECT_DEATH(placement.Remove(kSecond), "ps-1"); }

}  // namespace
}  // namespace downpour
