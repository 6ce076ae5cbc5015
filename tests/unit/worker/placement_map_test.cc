#include "worker/placement_map.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "tests/unit/worker/two_slices.h"

namespace downpour {
namespace {

constexpr Incarnation kPs0{10}, kPs1{11}, kNext{12};

// Slice X at the first server, Y at the last one.
Placement Place(uint64_t number, std::vector<Incarnation> servers, SliceEpoch x, SliceEpoch y) {
  Placement placement;
  placement.number = number;
  placement.term = 1;
  for (const Incarnation server : servers) {
    placement.servers.push_back({server, "ps", "host:" + std::to_string(ToNumber(server))});
  }
  placement.slices = {{kX, x, 0}, {kY, y, static_cast<uint32_t>(servers.size() - 1)}};
  return placement;
}

class PlacementMapTest : public testing::Test {
 protected:
  // What moved; dialled and hung up are noted.
  std::vector<SliceId> Adopt(const Placement& placement) {
    const absl::StatusOr<std::vector<SliceId>> moved = map_.Changes(placement);
    EXPECT_TRUE(moved.ok()) << moved.status();
    Effects effects;
    redialled_ = map_.Adopt(placement, effects);
    dialled_.clear();
    hung_up_.clear();
    for (const Effect& effect : effects.Take()) {
      if (const auto* dial = std::get_if<Dial>(&effect)) dialled_.push_back(dial->endpoint);
      if (const auto* hang_up = std::get_if<HangUp>(&effect)) hung_up_.push_back(hang_up->peer);
    }
    return moved.value_or(std::vector<SliceId>{});
  }

  PlacementMap map_{2, PeerId{2}};
  std::vector<std::string> dialled_;
  std::vector<PeerId> hung_up_;
  std::vector<PeerId> redialled_;
};

TEST_F(PlacementMapTest, TheFirstPlacementBringsEverything) {
  EXPECT_EQ(Adopt(Place(1, {kPs0, kPs1}, {1, 1}, {1, 1})), (std::vector{kX, kY}));
  EXPECT_EQ(dialled_, (std::vector<std::string>{"host:10", "host:11"}));
  EXPECT_EQ(map_.link_of(kY).incarnation, kPs1);
  EXPECT_EQ(map_.Find(PeerId{3}), &map_.link_of(kY));
  EXPECT_EQ(map_.Find(PeerId{4}), nullptr);
  EXPECT_EQ(map_.number(), 1u);
}

TEST_F(PlacementMapTest, OnlyANewerOneCounts) {
  Adopt(Place(2, {kPs0, kPs1}, {1, 1}, {1, 1}));
  EXPECT_FALSE(map_.Newer(Place(2, {kPs0, kPs1}, {1, 2}, {1, 1})));
  EXPECT_FALSE(map_.Newer(Place(1, {kPs0, kPs1}, {1, 2}, {1, 1})));
  EXPECT_TRUE(map_.Newer(Place(3, {kPs0, kPs1}, {1, 2}, {1, 1})));
  Placement next_term = Place(1, {kPs0, kPs1}, {2, 1}, {2, 1});
  next_term.term = 2;
  EXPECT_TRUE(map_.Newer(next_term));
}

// A restarted ps has the same name and is another process: it is dialled again, and the old connection goes.
TEST_F(PlacementMapTest, AServerIsAnIncarnation) {
  Adopt(Place(1, {kPs0, kPs1}, {1, 1}, {1, 1}));
  map_.link_of(kX).window = 99;
  const PeerId old_y = map_.link_of(kY).peer;
  EXPECT_EQ(Adopt(Place(2, {kPs0, kNext}, {1, 1}, {1, 2})), std::vector{kY});
  EXPECT_EQ(dialled_, std::vector<std::string>{"host:12"});
  EXPECT_EQ(hung_up_, std::vector{old_y});
  EXPECT_NE(map_.link_of(kY).peer, old_y);
  EXPECT_EQ(map_.link_of(kX).window, 99u) << "what stays is the same link";
}

TEST_F(PlacementMapTest, AProcessAtAnotherAddressIsDialledThereAndStaysTheSame) {
  Adopt(Place(1, {kPs0, kPs1}, {1, 1}, {1, 1}));
  EXPECT_TRUE(redialled_.empty()) << "nothing was sent to either";
  PsLink& link = map_.link_of(kY);
  link.unanswered = 8;
  const PeerId before = link.peer;
  Placement moved = Place(2, {kPs0, kPs1}, {1, 1}, {1, 1});
  moved.servers[1].endpoint = "elsewhere:1";
  EXPECT_TRUE(Adopt(moved).empty()) << "no slice is another's now";
  EXPECT_EQ(dialled_, std::vector<std::string>{"elsewhere:1"});
  EXPECT_EQ(hung_up_, std::vector{before});
  EXPECT_EQ(redialled_, std::vector{link.peer});
  EXPECT_NE(link.peer, before);
  EXPECT_EQ(&map_.link_of(kY), &link);
  EXPECT_EQ(link.unanswered, 8u);
  moved.number = 3;
  Adopt(moved);
  EXPECT_TRUE(dialled_.empty() && hung_up_.empty() && redialled_.empty());
}

TEST_F(PlacementMapTest, RefusesPlacementsThatCannotBe) {
  Adopt(Place(1, {kPs0, kPs1}, {1, 2}, {1, 2}));
  EXPECT_FALSE(map_.Changes(Place(2, {kPs0, kPs1}, {1, 1}, {1, 2})).ok()) << "an epoch goes back";
  EXPECT_FALSE(map_.Changes(Place(2, {kNext, kPs1}, {1, 2}, {1, 2})).ok()) << "moves without a new epoch";
  Placement twice = Place(2, {kPs0, kPs1}, {1, 3}, {1, 3});
  twice.slices[1].slice = kX;
  EXPECT_FALSE(map_.Changes(twice).ok());
  Placement missing = Place(2, {kPs0, kPs1}, {1, 3}, {1, 3});
  missing.slices.pop_back();
  EXPECT_FALSE(map_.Changes(missing).ok());
  Placement nowhere = Place(2, {kPs0, kPs1}, {1, 3}, {1, 3});
  nowhere.slices[0].server = 2;
  EXPECT_FALSE(map_.Changes(nowhere).ok());
  Placement unknown = Place(2, {kPs0, kPs1}, {1, 3}, {1, 3});
  unknown.slices[0].slice = SliceId{2};
  EXPECT_FALSE(map_.Changes(unknown).ok());
}

TEST_F(PlacementMapTest, TheFirstPlacementToo) {
  EXPECT_FALSE(map_.Changes(Place(0, {kPs0, kPs1}, {1, 1}, {1, 1})).ok()) << "has no number";
  EXPECT_FALSE(map_.Changes(Place(1, {kPs0, kPs1}, {0, 0}, {1, 1})).ok()) << "a slice has no epoch";
}

TEST(PsLinkTest, OneMessageMayAlwaysGo) {
  PsLink link;
  link.window = 50;
  EXPECT_TRUE(link.HasCredit(100)) << "else it never could";
  link.unanswered = 100;
  EXPECT_FALSE(link.HasCredit(1));
  link.window = 150;
  EXPECT_TRUE(link.HasCredit(50));
  EXPECT_FALSE(link.HasCredit(51));
}

}  // namespace
}  // namespace downpour
