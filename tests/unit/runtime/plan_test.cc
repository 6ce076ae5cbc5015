#include "runtime/plan.h"

#include <gtest/gtest.h>

#include <set>

namespace downpour {
namespace {

Plan MakePlan(uint64_t examples, int64_t batch, int64_t lease_batches, int64_t epochs, uint64_t seed = 1) {
  JobSpec job;
  job.seed = seed;
  job.training.batch_size = batch;
  job.training.lease_batches = lease_batches;
  job.training.epochs = epochs;
  return Plan(job, examples);
}

std::vector<uint64_t> Examples(const Plan& plan, LeaseId lease, Step step) {
  std::vector<uint64_t> ids;
  plan.Examples(lease, step, &ids);
  return ids;
}

// For many sizes, short last batches and short last leases among them: each epoch holds each example exactly once.
TEST(PlanTest, EveryEpochHoldsEveryExampleOnce) {
  for (uint64_t examples : {1, 2, 3, 7, 64, 65, 100, 1023}) {
    for (int64_t batch : {1, 3, 64}) {
      for (int64_t lease_batches : {1, 4, 100}) {
        const Plan plan = MakePlan(examples, batch, lease_batches, 2);
        for (uint64_t epoch = 0; epoch < 2; ++epoch) {
          std::multiset<uint64_t> seen;
          uint64_t steps = 0;
          for (uint64_t split = 0; split < plan.leases_per_epoch(); ++split) {
            const LeaseId lease{epoch * plan.leases_per_epoch() + split};
            EXPECT_EQ(plan.EpochOf(lease), epoch);
            uint64_t in_lease = 0;
            for (Step step = 1; step <= plan.StepsOf(lease); ++step) {
              const auto ids = Examples(plan, lease, step);
              EXPECT_EQ(ids.size(), plan.ExamplesOf(lease, step));
              seen.insert(ids.begin(), ids.end());
              in_lease += ids.size();
              ++steps;
            }
            EXPECT_EQ(in_lease, plan.ExamplesOf(lease));
          }
          EXPECT_EQ(steps, plan.batches_per_epoch());
          EXPECT_EQ(seen.size(), examples);
          EXPECT_EQ(std::set<uint64_t>(seen.begin(), seen.end()).size(), examples);
          EXPECT_EQ(*seen.rbegin(), examples - 1);
        }
      }
    }
  }
}

TEST(PlanTest, CountsTheStepsBeforeALease) {
  const Plan plan = MakePlan(100, 3, 4, 3);
  uint64_t steps = 0;
  for (uint64_t lease = 0; lease < plan.total_leases(); ++lease) {
    EXPECT_EQ(plan.StepsBefore(lease), steps);
    steps += plan.StepsOf(LeaseId{lease});
  }
  EXPECT_EQ(plan.StepsBefore(plan.total_leases()), steps);
  EXPECT_EQ(steps, plan.total_steps());
}

TEST(PlanTest, EpochsAndSeedsGiveOtherOrders) {
  const Plan plan = MakePlan(1000, 100, 10, 2);
  EXPECT_NE(Examples(plan, LeaseId{0}, 1), Examples(plan, LeaseId{1}, 1));
  EXPECT_NE(Examples(plan, LeaseId{0}, 1), Examples(MakePlan(1000, 100, 10, 2, 7), LeaseId{0}, 1));
  EXPECT_EQ(Examples(plan, LeaseId{0}, 1), Examples(MakePlan(1000, 100, 10, 2), LeaseId{0}, 1));
}

TEST(PlanTest, DrawsFollowFromTheNameOfTheStep) {
  const Plan plan = MakePlan(1000, 100, 5, 2);
  EXPECT_NE(plan.DrawSeed(LeaseId{0}, 1), plan.DrawSeed(LeaseId{0}, 2));
  EXPECT_NE(plan.DrawSeed(LeaseId{0}, 1), plan.DrawSeed(LeaseId{1}, 1));
}

TEST(PlanTest, NoExamplesNoLeases) { EXPECT_EQ(MakePlan(0, 10, 2, 3).total_leases(), 0u); }

}  // namespace
}  // namespace downpour
