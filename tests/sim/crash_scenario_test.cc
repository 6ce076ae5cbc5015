#include "tests/sim/crash_scenario.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace downpour {
namespace {

constexpr const char* kKindsOfFaults[] = {"a false answer to a reader",
                                          "a ps speaks for others",
                                          "all stopped",
                                          "all told to stop",
                                          "another folder",
                                          "another copy of the data",
                                          "another job's chief",
                                          "another job's end",
                                          "another job's end to a reader",
                                          "another job's refusal",
                                          "another job text",
                                          "anything said to a reader",
                                          "chief found elsewhere",
                                          "chief killed",
                                          "chief paused",
                                          "chief told to stop",
                                          "checkpoint given up",
                                          "checkpoints lost",
                                          "cut",
                                          "damage",
                                          "doubled",
                                          "echoed",
                                          "folder put back",
                                          "held by a cut",
                                          "late",
                                          "lost",
                                          "lost in a cut",
                                          "malformed frame",
                                          "model diverged",
                                          "next chief told to stop",
                                          "no space",
                                          "overtaken",
                                          "power failure",
                                          "ps killed",
                                          "ps told to stop",
                                          "ps paused",
                                          "read error",
                                          "reader cut off",
                                          "reader killed",
                                          "reader paused",
                                          "rename error",
                                          "reset",
                                          "resume forgotten",
                                          "stall",
                                          "stranger",
                                          "sync error",
                                          "to a successor",
                                          "told to stop amid a restore",
                                          "trouble at the end",
                                          "worker killed",
                                          "worker paused",
                                          "worker told to stop"};

TEST(CrashScenario, OneSeedIsOneHistory) {
  std::set<uint64_t> digests;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::ostringstream log;
    const RunResult quiet = CrashScenario(FaultPlanOf(seed), {}).Run();
    const RunResult verbose = CrashScenario(FaultPlanOf(seed), {.log = &log, .trace_dir = ""}).Run();
    EXPECT_EQ(quiet.digest, verbose.digest) << "seed " << seed;
    EXPECT_EQ(quiet.steps, verbose.steps);
    EXPECT_FALSE(log.str().empty());
    digests.insert(quiet.digest);
  }
  EXPECT_EQ(digests.size(), 20u);
}

TEST(CrashScenario, SeedsDealEveryKindOfFault) {
  RunResult sum;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const RunResult result = CrashScenario(FaultPlanOf(seed), {}).Run();
    ASSERT_EQ(result.finding, "") << FaultPlanOf(seed).ToString();
    Add(result.faults, sum.faults);
    sum.duplicates += result.duplicates;
    sum.stops += result.stops;
    sum.failures += result.failures;
    sum.sets += result.sets;
    sum.rows += result.rows;
  }
  for (const char* kind : kKindsOfFaults) {
    EXPECT_GT(sum.faults[kind], 0u) << kind;
  }
  EXPECT_GT(sum.duplicates, 100u);
  EXPECT_GT(sum.stops, 10);
  EXPECT_GT(sum.failures, 1);
  EXPECT_GT(sum.sets, 1000u);
  EXPECT_GT(sum.rows, 1000u);
}

// A seed's history is told by its draw: what is rare is drawn too, or the rules that it tries are not tried.
TEST(CrashScenario, SeedsDrawWhatIsRare) {
  int slices = 0, workers = 0, lies = 0, rots = 0, rooms = 0, slow = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    const FaultPlan plan = FaultPlanOf(seed);
    slices += GridOf(plan.job.model)->size() >= 100;
    workers += plan.job.cluster.worker_count >= 12;
    lies += plan.faults.lie > Duration::zero();
    rots += plan.rot;
    rooms += plan.device.no_room_for > Duration::zero();
    slow += plan.start_within > 1s;
  }
  for (const int count : {slices, workers, lies, rots, rooms, slow}) EXPECT_GT(count, 10);
}

// Whole slices move, values, slots and counters bit for bit: a pair that differs from the snapshot is a finding.
TEST(CrashScenario, ACheckpointOfTwoServersGoesOnOnAnyNumber) {
  for (const int servers : {1, 2, 3, 5}) {
    for (const OptimizerKind optimizer : {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam}) {
      FaultPlan plan = CalmPlan(/*seed=*/1, /*workers=*/2, /*servers=*/2);
      plan.job.training.optimizer.kind = optimizer;
      plan.job.checkpoint.every = 200ms;
      plan.generations = 2;
      plan.calm_after = 60s;
      plan.stop_after = 500ms;
      plan.servers_later = servers;
      const uint64_t steps = Plan(plan.job, plan.train_examples).total_steps();
      const uint64_t slices = GridOf(plan.job.model)->size();
      const RunResult result = CrashScenario(plan, {}).Run();
      EXPECT_EQ(result.finding, "") << servers << " ps";
      EXPECT_EQ(result.stops, 1) << servers << " ps";
      EXPECT_EQ(result.restored, slices) << servers << " ps";
      EXPECT_GT(result.pushes, steps * slices) << "what no checkpoint held is computed again";
    }
  }
}

// One lease of three steps, two slices: any process may die at any moment of its life.
TEST(CrashScenario, ACrashBeforeAnyEffectOfASmallClusterLosesAndDoublesNothing) {
  for (const int servers : {1, 2}) {
    FaultPlan plan = CalmPlan(/*seed=*/1, /*workers=*/1, servers);
    plan.job.model.layers = {plan.job.model.layers.front()};
    plan.job.training.batch_size = 1;
    plan.job.training.lease_batches = 3;
    plan.job.training.epochs = 1;
    plan.job.checkpoint.every = 20ms;
    plan.train_examples = 3;
    plan.job.timing.chief_wait = 4 * plan.timing.dead_after;
    const RunResult calm = CrashScenario(plan, {}).Run();
    ASSERT_EQ(calm.finding, "");
    ASSERT_GT(calm.effects, 100u);
    for (uint64_t effect = 0; effect < calm.effects; ++effect) {
      const RunResult result = CrashScenario(plan, {.crash_before = effect}).Run();
      ASSERT_EQ(result.finding, "") << "a crash before effect " << effect << " with " << servers << " ps";
    }
  }
}

// It hears of it when it goes on, perhaps after the job's end, when nobody acknowledges its last pushes any more.
TEST(CrashScenario, AWorkerThatIsToldToStopWhileItStandsStillHasItsTimeFromThenOn) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    FaultPlan plan = CalmPlan(seed, /*workers=*/2, /*servers=*/1);
    plan.train_examples = 400;
    plan.faults.worker_stop = plan.faults.pause = 500ms;
    plan.job.timing.chief_wait = 5 * plan.timing.dead_after;
    plan.calm_after = 2s;
    EXPECT_EQ(CrashScenario(plan, {}).Run().finding, "") << "seed " << seed;
  }
}

// No checkpoint is made but for them: without it all would be computed again.
TEST(CrashScenario, WhatAPsOrAWholeClusterHadWhenToldToStopIsNotComputedAgain) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FaultPlan plan = CalmPlan(seed, /*workers=*/2, /*servers=*/3);
    plan.job.checkpoint.every = Duration::zero();
    plan.calm_after = 3s;
    if (seed % 2 == 0) {
      plan.faults.ps_stop = 1s;
    } else {
      plan.generations = 2;
      plan.stop_after = 1s;
      plan.by_signal = plan.all_told = true;
    }
    const RunResult result = CrashScenario(plan, {}).Run();
    ASSERT_EQ(result.finding, "") << "seed " << seed;
    ASSERT_GT(Total(result.faults), 0u) << "seed " << seed;
    const uint64_t once = Plan(plan.job, plan.train_examples).total_steps() * GridOf(plan.job.model)->size();
    EXPECT_LT(result.pushes, once + 50 * Total(result.faults)) << "seed " << seed << ": what came after the snapshots";
  }
}

// Leases end far out of order there, and all that is said goes through the codec. Both ways of making a checkpoint.
TEST(CrashScenario, AHundredWorkersGoOnWhateverDies) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    FaultPlan plan = CalmPlan(seed, /*workers=*/100, /*servers=*/2);
    plan.job.checkpoint.via = seed % 2 == 0 ? CheckpointVia::kChief : CheckpointVia::kShared;
    plan.job.training.lease_batches = 2;
    plan.job.timing.chief_wait = 4 * plan.timing.dead_after;
    plan.device = {.least = 100ms, .spread = 2s};
    plan.network.codec = true;
    plan.network.loss = 0.01;
    plan.faults.worker_crash = 500ms;
    plan.faults.ps_crash = 4s;
    plan.faults.chief_crash = 4s;
    plan.calm_after = 10s;
    const RunResult result = CrashScenario(plan, {}).Run();
    EXPECT_EQ(result.finding, "") << "seed " << seed;
    EXPECT_GT(result.faults.at("chief killed"), 0u);
    EXPECT_GT(result.faults.at("ps killed"), 0u);
  }
}

// They see it whole, again and again, and nobody waits for them.
TEST(CrashScenario, ReadersOfACalmClusterChangeNothing) {
  FaultPlan plan = CalmPlan(/*seed=*/1, /*workers=*/2, /*servers=*/2);
  const RunResult without = CrashScenario(plan, {}).Run();
  ASSERT_EQ(without.finding, "");
  ASSERT_EQ(without.sets, 0u);
  plan.readers = {.count = 3, .refresh = 20ms};
  const RunResult with = CrashScenario(plan, {}).Run();
  ASSERT_EQ(with.finding, "");
  EXPECT_GT(with.sets, 100u);
  EXPECT_EQ(with.pushes, without.pushes);
  EXPECT_EQ(with.duplicates, without.duplicates);
  EXPECT_EQ(with.staleness.sum, without.staleness.sum);
  EXPECT_EQ(with.failures, 0);
}

// With nothing in its way a cluster of equal workers is busy computing, and stale by the other workers' steps.
TEST(CrashScenario, ACalmClusterWastesNothing) {
  for (int workers : {1, 2, 4}) {
    const FaultPlan plan = CalmPlan(/*seed=*/1, workers, /*servers=*/2);
    const RunResult result = CrashScenario(plan, {}).Run();
    ASSERT_EQ(result.finding, "");
    EXPECT_EQ(result.duplicates, 0u);
    EXPECT_EQ(result.staleness.unknown, 0u);
    const double mean = static_cast<double>(result.staleness.sum) / static_cast<double>(result.staleness.pushes);
    EXPECT_NEAR(mean, workers - 1, 0.25 * workers) << workers << " workers";
    const uint64_t steps = Plan(plan.job, plan.train_examples).total_steps();
    const Duration compute = (plan.device.least + plan.device.spread / 2) * steps / workers;
    const Duration around = 4s;  // joining, checkpoints, saying goodbye
    EXPECT_LT(Seconds(result.took), 1.2 * Seconds(compute) + Seconds(around)) << workers << " workers";
  }
}

}  // namespace
}  // namespace downpour
