#include "schema/interval_set.h"

#include <gtest/gtest.h>

#include <set>

namespace downpour {
namespace {

using Interval = IntervalSet::Interval;

IntervalSet Of(std::initializer_list<Interval> intervals) {
  IntervalSet set;
  for (const Interval& i : intervals) set.InsertRange(i.begin, i.end);
  return set;
}

TEST(IntervalSetTest, NeighboursMerge) {
  IntervalSet set;
  set.Insert(3);
  set.Insert(5);
  EXPECT_EQ(set.Intervals(), (std::vector<Interval>{{3, 4}, {5, 6}}));
  set.Insert(4);
  EXPECT_EQ(set.Intervals(), (std::vector<Interval>{{3, 6}}));
}

TEST(IntervalSetTest, TheLargestNumberIsNoMemberOfAll) {
  EXPECT_FALSE(IntervalSet().Contains(UINT64_MAX));
  EXPECT_FALSE(Of({{0, UINT64_MAX}}).Contains(UINT64_MAX));
  EXPECT_TRUE(Of({{0, UINT64_MAX}}).Contains(UINT64_MAX - 1));
}

TEST(IntervalSetTest, ARangeSwallowsWhatItOverlapsAndTouches) {
  IntervalSet set = Of({{0, 2}, {4, 6}, {8, 9}, {12, 14}});
  set.InsertRange(2, 8);
  EXPECT_EQ(set.Intervals(), (std::vector<Interval>{{0, 9}, {12, 14}}));
}

TEST(IntervalSetTest, CoversAndIntersect) {
  const IntervalSet a = Of({{0, 10}, {20, 30}});
  const IntervalSet b = Of({{5, 25}});
  EXPECT_EQ(a.Intersect(b), Of({{5, 10}, {20, 25}}));
  EXPECT_FALSE(a.Covers(b));
  EXPECT_TRUE(a.Covers(a.Intersect(b)));
  EXPECT_TRUE(a.Covers(IntervalSet()));
  EXPECT_TRUE(a.CoversRange(20, 30));
  EXPECT_FALSE(a.CoversRange(9, 11));
}

TEST(IntervalSetTest, ExceptLeavesWhatTheOtherLacks) {
  const IntervalSet a = Of({{0, 10}, {20, 30}});
  EXPECT_EQ(a.Except(Of({{5, 25}})), Of({{0, 5}, {25, 30}}));
  EXPECT_EQ(a.Except(IntervalSet()), a);
  EXPECT_EQ(a.Except(a), IntervalSet());
  EXPECT_EQ(a.FirstMissing(0), 10u);
  EXPECT_EQ(a.FirstMissing(10), 10u);
  EXPECT_EQ(a.FirstMissing(29), 30u);
  EXPECT_EQ(a.FirstMissing(99), 99u);
}

// Against the obvious implementation: 500 times eight numbers, each drawn from twelve.
TEST(IntervalSetTest, AgreesWithASetOfNumbers) {
  uint64_t state = 1;
  IntervalSet last;
  for (int round = 0; round < 500; ++round) {
    IntervalSet set;
    std::set<uint64_t> model;
    for (int i = 0; i < 8; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const uint64_t value = (state >> 33) % 12;
      set.Insert(value);
      model.insert(value);
    }
    EXPECT_EQ(set.Count(), model.size());
    for (uint64_t v = 0; v < 13; ++v) {
      EXPECT_EQ(set.Contains(v), model.contains(v)) << v;
      EXPECT_EQ(set.Intersect(last).Contains(v), model.contains(v) && last.Contains(v)) << v;
      EXPECT_EQ(set.Except(last).Contains(v), model.contains(v) && !last.Contains(v)) << v;
      uint64_t missing = v;
      while (model.contains(missing)) ++missing;
      EXPECT_EQ(set.FirstMissing(v), missing);
    }
    last = set;
    for (size_t i = 1; i < set.Intervals().size(); ++i) {
      EXPECT_LT(set.Intervals()[i - 1].end, set.Intervals()[i].begin);  // disjoint, and not adjacent
    }
  }
}

}  // namespace
}  // namespace downpour
