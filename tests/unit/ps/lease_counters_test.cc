#include "ps/lease_counters.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "runtime/prng.h"
#include "tests/scenario/tiny_job.h"

namespace downpour {
namespace {

using Verdict = LeaseCounters::Verdict;

constexpr Step kSteps = 3;  // of each lease of the tiny job

LeaseCounters After(std::initializer_list<std::pair<uint64_t, Step>> consumed) {
  LeaseCounters counters;
  for (const auto& [lease, step] : consumed) counters.Consume(LeaseId{lease}, step, kSteps);
  return counters;
}

TEST(LeaseCountersTest, OnlyTheNextStepCounts) {
  const LeaseCounters counters = After({{0, 1}, {0, 2}});
  EXPECT_EQ(counters.Classify(LeaseId{0}, 1), Verdict::kDuplicate);
  EXPECT_EQ(counters.Classify(LeaseId{0}, 2), Verdict::kDuplicate);
  EXPECT_EQ(counters.Classify(LeaseId{0}, 3), Verdict::kNext);
  EXPECT_EQ(counters.Classify(LeaseId{1}, 1), Verdict::kNext);
  EXPECT_EQ(counters.Classify(LeaseId{1}, 2), Verdict::kGap);
  EXPECT_EQ(counters.ConsumedTo(LeaseId{0}, kSteps), 2u);
  EXPECT_EQ(counters.ConsumedTo(LeaseId{1}, kSteps), 0u);
}

TEST(LeaseCountersTest, AFinishedLeaseIsNeverForgotten) {
  const LeaseCounters counters = After({{2, 1}, {2, 2}, {2, 3}});
  EXPECT_TRUE(counters.open().empty());
  EXPECT_TRUE(counters.finished().Contains(2));
  for (Step step = 1; step <= kSteps; ++step)
    EXPECT_EQ(counters.Classify(LeaseId{2}, step), Verdict::kDuplicate) << step;
  EXPECT_EQ(counters.ConsumedTo(LeaseId{2}, kSteps), kSteps);
}

// Any schedule of pushes, late and doubled ones among them, consumes exactly the steps that a plain set would.
TEST(LeaseCountersTest, AgreesWithASetOfEverythingConsumed) {
  const Plan plan = TinyPlan();
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Prng prng(seed);
    LeaseCounters counters;
    std::set<std::pair<LeaseId, Step>> consumed;
    for (int push = 0; push < 60; ++push) {
      const LeaseId lease{prng.Below(plan.total_leases())};
      const Step step = static_cast<Step>(1 + prng.Below(kSteps));
      const bool next = !consumed.contains({lease, step}) && (step == 1 || consumed.contains({lease, step - 1}));
      ASSERT_EQ(counters.Classify(lease, step) == Verdict::kNext, next) << "seed " << seed;
      ASSERT_EQ(counters.Classify(lease, step) == Verdict::kDuplicate, consumed.contains({lease, step}));
      if (!next) continue;
      counters.Consume(lease, step, kSteps);
      consumed.emplace(lease, step);
      ASSERT_EQ(counters.ConsumedTo(lease, kSteps), step);
      ASSERT_EQ(counters.Sum(plan), consumed.size());
      ASSERT_TRUE(LeaseCounters::Restore(counters.finished(), counters.open(), plan).ok());
    }
  }
}

TEST(LeaseCountersTest, RestoresWhatARecordHolds) {
  IntervalSet finished;
  finished.InsertRange(0, 2);
  const auto restored = LeaseCounters::Restore(finished, {{LeaseId{2}, 1}, {LeaseId{3}, 2}}, TinyPlan());
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->Classify(LeaseId{1}, 1), Verdict::kDuplicate);
  EXPECT_EQ(restored->Classify(LeaseId{2}, 2), Verdict::kNext);
  EXPECT_EQ(restored->Classify(LeaseId{3}, 3), Verdict::kNext);
  EXPECT_EQ(restored->Sum(TinyPlan()), 2 * kSteps + 1 + 2u);
}

TEST(LeaseCountersTest, RefusesCountersThatNoSliceHas) {
  const Plan plan = TinyPlan();
  IntervalSet beyond, first;
  beyond.InsertRange(0, plan.total_leases() + 1);
  first.Insert(0);
  EXPECT_FALSE(LeaseCounters::Restore(beyond, {}, plan).ok());
  EXPECT_FALSE(LeaseCounters::Restore(first, {{LeaseId{0}, 1}}, plan).ok()) << "finished and open";
  EXPECT_FALSE(LeaseCounters::Restore({}, {{LeaseId{0}, 0}}, plan).ok()) << "open at no step";
  EXPECT_FALSE(LeaseCounters::Restore({}, {{LeaseId{0}, kSteps}}, plan).ok()) << "open at its last step";
  EXPECT_FALSE(LeaseCounters::Restore({}, {{LeaseId{1}, 1}, {LeaseId{0}, 1}}, plan).ok()) << "not ascending";
  EXPECT_FALSE(LeaseCounters::Restore({}, {{LeaseId{plan.total_leases()}, 1}}, plan).ok()) << "no such lease";
}

using LeaseCountersDeathTest = testing::Test;

TEST(LeaseCountersDeathTest, ConsumingTwiceIsABugOfOurs) {
  LeaseCounters counters = After({{0, 1}});
  EXPECT_DEATH(counters.Consume(LeaseId{0}, 1, kSteps), "lease 0 step 1");
}

}  // namespace
}  // namespace downpour
