// Two runs that meet at one address under the same numbers, and a folder that is put back while its tasks live.
#include <gtest/gtest.h>

#include "tests/sim/crash_scenario.h"

namespace downpour {
namespace {

// No clock tells their terms apart: incarnations, slice epochs, rounds and leases are the same in each.
FaultPlan RunsThatMeet(uint64_t seed) {
  FaultPlan plan = CalmPlan(seed, /*workers=*/3, /*servers=*/2);
  plan.job.training.lease_batches = 4;
  plan.faults.new_folder = 1s;
  plan.calm_after = 4s;
  plan.job.timing.chief_wait = 4 * plan.timing.dead_after;
  return plan;
}

uint64_t DealtIn(const RunResult& result, const char* fault) {
  const auto found = result.faults.find(fault);
  return found == result.faults.end() ? 0 : found->second;
}

TEST(CrashScenarioFolders, TasksThatWaitForTheirChiefServeTheOneThatComes) {
  uint64_t met = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const RunResult result = CrashScenario(RunsThatMeet(seed), {}).Run();
    ASSERT_EQ(result.finding, "") << "seed " << seed;
    met += DealtIn(result, "another folder");
  }
  EXPECT_GT(met, 10u);
}

TEST(CrashScenarioFolders, WhatStoodStillThroughAChangeOfRunsCountsForNothing) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FaultPlan plan = RunsThatMeet(seed);
    plan.faults.pause = 300ms;
    plan.network.outlive = true;
    plan.network.echo = 0.1;
    plan.network.in_order = false;
    plan.network.straggle = 0.1;
    ASSERT_EQ(CrashScenario(plan, {}).Run().finding, "") << "seed " << seed;
  }
}

// Each of these servers was started with the folder of the run before.
TEST(CrashScenarioFolders, NoServerWritesCheckpointsOfOneRunIntoTheFolderOfAnother) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    FaultPlan plan = RunsThatMeet(seed);
    plan.job.checkpoint.via = CheckpointVia::kShared;
    ASSERT_EQ(CrashScenario(plan, {}).Run().finding, "") << "seed " << seed;
  }
}

TEST(CrashScenarioFolders, WhatIsHeldGoesOnWhereTheFolderIsPutBack) {
  uint64_t put_back = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    FaultPlan plan = CalmPlan(seed, /*workers=*/2, /*servers=*/2);
    plan.train_examples = 16000;
    plan.clock_is_right = true;
    plan.faults.put_back = 1s;
    plan.calm_after = 15s;
    const RunResult result = CrashScenario(plan, {}).Run();
    ASSERT_EQ(result.finding, "") << "seed " << seed;
    EXPECT_EQ(result.restored, 0u) << "the servers live";
    put_back += DealtIn(result, "folder put back");
  }
  EXPECT_GT(put_back, 5u);
}

}  // namespace
}  // namespace downpour
