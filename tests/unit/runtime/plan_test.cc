#include "runtime/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace downpour {
namespace {

Plan MakePlan(uint64_t examples, int64_t batch, int64_t lease_batches, int64_t epochs, uint64_t seed = 1,
              int64_t push_every = 1) {
  JobSpec job;
  job.seed = seed;
  job.training.batch_size = batch;
  job.training.lease_batches = lease_batches;
  job.training.push_every = push_every;
  job.training.epochs = epochs;
  return Plan(job, examples);
}

std::vector<uint64_t> Examples(const Plan& plan, LeaseId lease, Step step) {
  std::vector<uint64_t> ids;
  plan.Examples(lease, step, &ids);
  return ids;
}

// For many sizes, short last batches, steps and leases among them: each epoch holds each example exactly once.
TEST(PlanTest, EveryEpochHoldsEveryExampleOnce) {
  for (uint64_t examples : {1, 2, 3, 7, 64, 65, 100, 1023}) {
    for (int64_t batch : {1, 3, 64}) {
      for (const auto& [lease_batches, push_every] :
           {std::pair<int64_t, int64_t>{1, 1}, {4, 1}, {4, 3}, {4, 4}, {100, 1}, {100, 7}}) {
        const Plan plan = MakePlan(examples, batch, lease_batches, 2, 1, push_every);
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
          EXPECT_EQ(steps, plan.steps_per_epoch());
          EXPECT_EQ(seen.size(), examples);
          EXPECT_EQ(std::set<uint64_t>(seen.begin(), seen.end()).size(), examples);
          EXPECT_EQ(*seen.rbegin(), examples - 1);
        }
      }
    }
  }
}

// So leases, ledger and probes of local steps are those of steps of several batches.
TEST(PlanTest, LocalStepsMakeAStepOfAsManyBatchesAsPushEvery) {
  JobSpec job;
  job.training.batch_size = 3;
  job.training.lease_batches = 8;
  job.training.local_steps = 3;
  job.training.epochs = 2;
  const Plan local(job, 100), plain = MakePlan(100, 3, 8, 2, 1, 3);
  EXPECT_EQ(local.total_batches(), 2u * 34u);
  EXPECT_EQ(local.total_steps(), plain.total_steps());
  uint64_t before = 0;
  for (uint64_t number = 0; number < local.total_leases(); ++number) {
    const LeaseId lease{number};
    ASSERT_EQ(local.StepsOf(lease), plain.StepsOf(lease));
    for (Step step = 1; step <= local.StepsOf(lease); ++step) {
      EXPECT_EQ(Examples(local, lease, step), Examples(plain, lease, step));
      EXPECT_EQ(local.BatchesBefore(lease, step), before);
      before += (local.ExamplesOf(lease, step) + 2) / 3;
    }
  }
  EXPECT_EQ(before, local.total_batches());
}

TEST(PlanTest, CountsTheStepsBeforeALease) {
  for (int64_t push_every : {1, 2, 3, 4}) {
    const Plan plan = MakePlan(100, 3, 4, 3, 1, push_every);
    uint64_t steps = 0;
    for (uint64_t lease = 0; lease < plan.total_leases(); ++lease) {
      EXPECT_EQ(plan.StepsBefore(lease), steps);
      steps += plan.StepsOf(LeaseId{lease});
    }
    EXPECT_EQ(plan.StepsBefore(plan.total_leases()), steps);
    EXPECT_EQ(steps, plan.total_steps());
  }
}

TEST(PlanTest, SumsOverASetOfLeasesAreThoseOfItsMembers) {
  for (int64_t push_every : {1, 3, 4}) {
    const Plan plan =
        MakePlan(100, 3, 4, 3, 1, push_every);  // 9 leases an epoch, the last one of 2 batches, 4 examples
    for (uint64_t begin = 0; begin <= plan.total_leases(); ++begin) {
      IntervalSet leases;
      leases.InsertRange(0, begin / 2);
      leases.InsertRange(begin, plan.total_leases());
      uint64_t batches = 0, steps = 0, examples = 0;
      for (uint64_t lease = 0; lease < plan.total_leases(); ++lease) {
        if (!leases.Contains(lease)) continue;
        batches += plan.BatchesOf(LeaseId{lease});
        steps += plan.StepsOf(LeaseId{lease});
        examples += plan.ExamplesOf(LeaseId{lease});
      }
      EXPECT_EQ(plan.BatchesIn(leases), batches) << begin;
      EXPECT_EQ(plan.StepsIn(leases), steps) << begin;
      EXPECT_EQ(plan.ExamplesIn(leases), examples) << begin;
    }
  }
}

// Whatever the steps, leases hold the same batches in the same order.
TEST(PlanTest, AStepIsSomeBatchesOfItsLease) {
  const Plan one = MakePlan(100, 3, 5, 2), three = MakePlan(100, 3, 5, 2, 1, 3);  // 34 batches, the last one of 1
  ASSERT_EQ(one.total_leases(), three.total_leases());
  for (uint64_t lease = 0; lease < one.total_leases(); ++lease) {
    std::vector<uint64_t> by_batches, by_steps;
    for (Step step = 1; step <= one.StepsOf(LeaseId{lease}); ++step) {
      for (uint64_t id : Examples(one, LeaseId{lease}, step)) by_batches.push_back(id);
    }
    for (Step step = 1; step <= three.StepsOf(LeaseId{lease}); ++step) {
      for (uint64_t id : Examples(three, LeaseId{lease}, step)) by_steps.push_back(id);
    }
    EXPECT_EQ(by_batches, by_steps);
    EXPECT_EQ(three.BatchesOf(LeaseId{lease}), one.StepsOf(LeaseId{lease}));
  }
  EXPECT_EQ(three.StepsOf(LeaseId{0}), 2u);
  EXPECT_EQ(three.ExamplesOf(LeaseId{0}, 1), 9u);
  EXPECT_EQ(three.ExamplesOf(LeaseId{0}, 2), 6u);
  EXPECT_EQ(three.ExamplesOf(LeaseId{6}, 2), 1u) << "batches of 3, 3, 3 and 1";
}

TEST(PlanTest, EpochsAndSeedsGiveOtherOrders) {
  const Plan plan = MakePlan(1000, 100, 10, 2);
  EXPECT_NE(Examples(plan, LeaseId{0}, 1), Examples(plan, LeaseId{1}, 1));
  EXPECT_NE(Examples(plan, LeaseId{0}, 1), Examples(MakePlan(1000, 100, 10, 2, 7), LeaseId{0}, 1));
  EXPECT_EQ(Examples(plan, LeaseId{0}, 1), Examples(MakePlan(1000, 100, 10, 2), LeaseId{0}, 1));
}

TEST(PlanTest, DrawsFollowFromTheNameOfTheStepAndTheBatchInIt) {
  const Plan plan = MakePlan(1000, 100, 5, 2);
  EXPECT_NE(plan.DrawSeed(LeaseId{0}, 1, 0), plan.DrawSeed(LeaseId{0}, 2, 0));
  EXPECT_NE(plan.DrawSeed(LeaseId{0}, 1, 0), plan.DrawSeed(LeaseId{1}, 1, 0));
  EXPECT_NE(plan.DrawSeed(LeaseId{0}, 1, 0), plan.DrawSeed(LeaseId{0}, 1, 1));
}

TEST(PlanTest, GroupsAndHowFarOneMayReach) {
  JobSpec job;
  job.training.batch_size = job.training.lease_batches = 1;
  EXPECT_EQ(Plan(job, 10).ReachFrom(0), 10u) << "async";
  job.training.group_size = 4;
  job.training.consistency = Consistency::kSync;
  const Plan sync(job, 10);
  EXPECT_EQ(sync.GroupOf(LeaseId{7}), 1u);
  EXPECT_EQ(sync.LeasesIn(1), 4u);
  EXPECT_EQ(sync.LeasesIn(2), 2u) << "the last group is short";
  EXPECT_EQ(sync.ReachFrom(3), 4u);
  EXPECT_EQ(sync.ReachFrom(4), 8u);
  EXPECT_EQ(sync.ReachFrom(9), 10u);
  job.training.epochs = 3;
  const Plan longer(job, 10);
  EXPECT_EQ(longer.GroupOf(LeaseId{9}), 2u) << "a group ends with its epoch, however many epochs there are";
  EXPECT_EQ(longer.LeasesIn(2), 2u);
  EXPECT_EQ(longer.GroupOf(LeaseId{10}), 3u);
  EXPECT_EQ(longer.GroupBegin(4), 14u);
  EXPECT_EQ(longer.GroupBegin(9), longer.total_leases());
  job.training.consistency = Consistency::kSsp;
  job.training.epochs = 1;
  job.training.ssp_bound = 1;
  EXPECT_EQ(Plan(job, 100).ReachFrom(3), 8u);
  job.training.ssp_bound = 1'000'000;
  EXPECT_EQ(Plan(job, 100).ReachFrom(3), 100u);
}

TEST(PlanTest, NoExamplesNoLeases) { EXPECT_EQ(MakePlan(0, 10, 2, 3).total_leases(), 0u); }

Plan MakeBlockPlan(uint64_t examples, int64_t block, int64_t batch, int64_t lease_batches, uint64_t seed = 1) {
  JobSpec job;
  job.seed = seed;
  job.data.order = DataOrder::kBlocks;
  job.data.block_examples = block;
  job.training.batch_size = batch;
  job.training.lease_batches = lease_batches;
  job.training.push_every = 3;
  job.training.epochs = 2;
  return Plan(job, examples);
}

std::vector<uint64_t> ExamplesOfLease(const Plan& plan, LeaseId lease) {
  std::vector<uint64_t> all;
  for (Step step = 1; step <= plan.StepsOf(lease); ++step) {
    const std::vector<uint64_t> ids = Examples(plan, lease, step);
    EXPECT_EQ(ids.size(), plan.ExamplesOf(lease, step));
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return all;
}

// Of one epoch: so an input that reads by blocks reads few of them, and all that it reads is of use.
void ExpectEachExampleOnceInFewBlocks(const Plan& plan, uint64_t epoch, uint64_t block) {
  std::set<uint64_t> seen;
  for (uint64_t split = 0; split < plan.leases_per_epoch(); ++split) {
    const LeaseId lease{epoch * plan.leases_per_epoch() + split};
    const std::vector<uint64_t> ids = ExamplesOfLease(plan, lease);
    EXPECT_EQ(ids.size(), plan.ExamplesOf(lease));
    std::set<uint64_t> blocks;
    for (const uint64_t id : ids) {
      EXPECT_TRUE(id < plan.train_examples() && seen.insert(id).second) << id;
      blocks.insert(id / block);
    }
    EXPECT_LE(blocks.size(), (ids.size() + block - 1) / block + 1);
  }
  EXPECT_EQ(seen.size(), plan.train_examples());
}

TEST(BlockPlanTest, EveryEpochHoldsEveryExampleOnceAndALeaseFewBlocks) {
  for (uint64_t examples : {1, 2, 7, 64, 100, 1023, 4096}) {
    for (int64_t block : {1, 5, 64, 128, 5000}) {
      for (const auto& [batch, lease_batches] : {std::pair<int64_t, int64_t>{1, 1}, {3, 4}, {32, 7}, {64, 100}}) {
        const Plan plan = MakeBlockPlan(examples, block, batch, lease_batches);
        for (uint64_t epoch = 0; epoch < 2; ++epoch) {
          ExpectEachExampleOnceInFewBlocks(plan, epoch, static_cast<uint64_t>(block));
        }
      }
    }
  }
}

TEST(BlockPlanTest, EpochsBlocksAndLeasesAreShuffled) {
  const Plan plan = MakeBlockPlan(10'000, 100, 10, 30);
  const std::vector<uint64_t> first = ExamplesOfLease(plan, LeaseId{0});
  EXPECT_NE(first, ExamplesOfLease(plan, LeaseId{plan.leases_per_epoch()})) << "epochs differ";
  EXPECT_NE(first, ExamplesOfLease(MakeBlockPlan(10'000, 100, 10, 30, 2), LeaseId{0})) << "seeds differ";
  EXPECT_EQ(first, ExamplesOfLease(MakeBlockPlan(10'000, 100, 10, 30), LeaseId{0}));
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  std::set<uint64_t> blocks;
  for (size_t i = 0; i < 10; ++i) blocks.insert(first[i] / 100);
  EXPECT_GT(blocks.size(), 1u) << "a batch mixes the blocks of its lease";
}

// ---- More data ------------------------------------------------------------------------------------------------------

JobSpec GrownJob(int64_t epochs, std::vector<EarlierEpochs> earlier, Consistency consistency = Consistency::kAsync,
                 DataOrder order = DataOrder::kExamples) {
  JobSpec job;
  job.training.batch_size = 3;
  job.training.lease_batches = 4;
  job.training.push_every = 2;
  job.training.epochs = epochs;
  job.training.earlier = std::move(earlier);
  job.training.consistency = consistency;
  job.training.group_size = 2;
  job.data.order = order;
  job.data.block_examples = 7;
  return job;
}

TEST(GrownPlanTest, EarlierEpochsMeanWhatTheyMeantBefore) {
  for (const DataOrder order : {DataOrder::kExamples, DataOrder::kBlocks}) {
    const Plan before(GrownJob(2, {}, Consistency::kSsp, order), 50);
    const Plan grown(GrownJob(5, {{2, 50, 0}, {3, 64, 0}}, Consistency::kSsp, order), 101);
    for (uint64_t number = 0; number < before.total_leases(); ++number) {
      const LeaseId lease{number};
      EXPECT_EQ(ExamplesOfLease(grown, lease), ExamplesOfLease(before, lease)) << number;
      EXPECT_EQ(grown.StepsOf(lease), before.StepsOf(lease));
      EXPECT_EQ(grown.EpochOf(lease), before.EpochOf(lease));
      EXPECT_EQ(grown.GroupOf(lease), before.GroupOf(lease));
      EXPECT_EQ(grown.StepsBefore(number), before.StepsBefore(number));
      EXPECT_EQ(grown.BatchesBefore(number), before.BatchesBefore(number));
      EXPECT_EQ(grown.DrawSeed(lease, 1, 0), before.DrawSeed(lease, 1, 0));
    }
  }
}

TEST(GrownPlanTest, EveryEpochHasEachOfItsExamplesOnce) {
  for (const DataOrder order : {DataOrder::kExamples, DataOrder::kBlocks}) {
    const Plan plan(GrownJob(5, {{2, 50, 0}, {3, 64, 0}}, Consistency::kAsync, order), 101);
    constexpr uint64_t kOf[] = {50, 50, 64, 101, 101};
    uint64_t examples = 0, steps = 0, batches = 0;
    for (uint64_t epoch = 0; epoch < 5; ++epoch) {
      EXPECT_EQ(plan.ExamplesOfEpoch(epoch), kOf[epoch]);
      EXPECT_EQ(plan.ExamplesBefore(plan.EpochBegin(epoch)), examples);
      EXPECT_DOUBLE_EQ(plan.EpochsOf(examples), static_cast<double>(epoch));
      EXPECT_DOUBLE_EQ(plan.EpochsOf(examples + 10),
                       static_cast<double>(epoch) + 10.0 / static_cast<double>(kOf[epoch]));
      std::set<uint64_t> seen;
      for (uint64_t number = plan.EpochBegin(epoch); number < plan.EpochBegin(epoch + 1); ++number) {
        EXPECT_EQ(plan.EpochOf(LeaseId{number}), epoch);
        EXPECT_EQ(plan.StepsBefore(number), steps);
        EXPECT_EQ(plan.BatchesBefore(number), batches);
        const std::vector<uint64_t> ids = ExamplesOfLease(plan, LeaseId{number});
        EXPECT_EQ(ids.size(), plan.ExamplesOf(LeaseId{number}));
        seen.insert(ids.begin(), ids.end());
        steps += plan.StepsOf(LeaseId{number});
        batches += plan.BatchesOf(LeaseId{number});
      }
      EXPECT_EQ(seen.size(), kOf[epoch]) << epoch;
      EXPECT_EQ(*seen.rbegin(), kOf[epoch] - 1);
      examples += kOf[epoch];
    }
    EXPECT_EQ(plan.total_steps(), steps);
    EXPECT_EQ(plan.total_batches(), batches);
    EXPECT_EQ(plan.ExamplesBefore(plan.total_leases()), examples);
    EXPECT_EQ(plan.EpochOf(LeaseId{plan.total_leases()}), 5u);
    IntervalSet all;
    all.InsertRange(0, plan.total_leases());
    EXPECT_EQ(plan.ExamplesIn(all), examples);
    EXPECT_EQ(plan.train_examples(), 101u);
  }
}

TEST(GrownPlanTest, GroupsStayWithinTheirEpoch) {
  const Plan plan(GrownJob(4, {{2, 50, 0}}, Consistency::kSync), 101);  // 5 leases in an epoch, then 9
  uint64_t group = 0;
  for (uint64_t epoch = 0; epoch < 4; ++epoch) {
    for (uint64_t begin = plan.EpochBegin(epoch); begin < plan.EpochBegin(epoch + 1); begin += 2, ++group) {
      EXPECT_EQ(plan.GroupBegin(group), begin);
      EXPECT_EQ(plan.GroupOf(LeaseId{begin}), group);
      EXPECT_EQ(plan.LeasesIn(group), std::min<uint64_t>(2, plan.EpochBegin(epoch + 1) - begin));
    }
  }
  EXPECT_EQ(plan.GroupBegin(group), plan.total_leases());
}

TEST(GrownPlanTest, DataThatDidNotGrowMakeThePlanThatThereWas) {
  const Plan plain(GrownJob(5, {}), 50), same(GrownJob(5, {{2, 50, 7}}), 50);
  ASSERT_EQ(same.total_leases(), plain.total_leases());
  for (uint64_t number = 0; number < plain.total_leases(); ++number) {
    EXPECT_EQ(ExamplesOfLease(same, LeaseId{number}), ExamplesOfLease(plain, LeaseId{number}));
    EXPECT_EQ(same.StepsBefore(number), plain.StepsBefore(number));
    EXPECT_EQ(same.GroupOf(LeaseId{number}), plain.GroupOf(LeaseId{number}));
  }
}

// What stays behind the whole blocks is what the file ends with, in an epoch's last lease.
TEST(BlockPlanTest, TheShortBlockStaysLast) {
  const Plan plan = MakeBlockPlan(1005, 100, 5, 20);
  std::vector<uint64_t> last = ExamplesOfLease(plan, LeaseId{plan.leases_per_epoch() - 1});
  std::sort(last.begin(), last.end());
  EXPECT_EQ(last, (std::vector<uint64_t>{1000, 1001, 1002, 1003, 1004}));
}

}  // namespace
}  // namespace downpour
