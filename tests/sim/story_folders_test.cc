// Two runs that meet at one address under the same numbers, and a folder that is put back while its tasks live.
#include <gtest/gtest.h>

#include "tests/sim/story.h"

namespace downpour {
namespace {

// No clock tells their terms apart: incarnations, slice epochs, rounds and leases are the same in each.
Draw RunsThatMeet(uint64_t seed) {
  Draw draw = CalmDraw(seed, /*workers=*/3, /*servers=*/2);
  draw.job.training.lease_batches = 4;
  draw.faults.new_folder = 1s;
  draw.calm_after = 4s;
  draw.job.timing.chief_wait = 4 * draw.timing.dead_after;
  return draw;
}

uint64_t DealtIn(const RunResult& result, const char* fault) {
  const auto found = result.faults.find(fault);
  return found == result.faults.end() ? 0 : found->second;
}

TEST(StoryFolders, TasksThatWaitForTheirChiefServeTheOneThatComes) {
  uint64_t met = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const RunResult result = Story(RunsThatMeet(seed), {}).Run();
    ASSERT_EQ(result.finding, "") << "seed " << seed;
    met += DealtIn(result, "another folder");
  }
  EXPECT_GT(met, 10u);
}

TEST(StoryFolders, WhatStoodStillThroughAChangeOfRunsCountsForNothing) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Draw draw = RunsThatMeet(seed);
    draw.faults.pause = 300ms;
    draw.network.outlive = true;
    draw.network.echo = 0.1;
    draw.network.in_order = false;
    draw.network.straggle = 0.1;
    ASSERT_EQ(Story(draw, {}).Run().finding, "") << "seed " << seed;
  }
}

// Each of these servers was started with the folder of the run before.
TEST(StoryFolders, NoServerWritesCheckpointsOfOneRunIntoTheFolderOfAnother) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Draw draw = RunsThatMeet(seed);
    draw.job.checkpoint.via = CheckpointVia::kShared;
    ASSERT_EQ(Story(draw, {}).Run().finding, "") << "seed " << seed;
  }
}

TEST(StoryFolders, WhatIsHeldGoesOnWhereTheFolderIsPutBack) {
  uint64_t put_back = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Draw draw = CalmDraw(seed, /*workers=*/2, /*servers=*/2);
    draw.train_examples = 16000;
    draw.clock_is_right = true;
    draw.faults.put_back = 1s;
    draw.calm_after = 15s;
    const RunResult result = Story(draw, {}).Run();
    ASSERT_EQ(result.finding, "") << "seed " << seed;
    EXPECT_EQ(result.restored, 0u) << "the servers live";
    put_back += DealtIn(result, "folder put back");
  }
  EXPECT_GT(put_back, 5u);
}

}  // namespace
}  // namespace downpour
