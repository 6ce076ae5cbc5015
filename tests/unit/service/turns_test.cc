#include "service/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kGiB = uint64_t{1} << 30;

Job JobNamed(const std::string& name, JobState state = JobState::kQueued) { return {.name = name, .state = state}; }

TEST(TurnsTest, FirstCome) {
  const std::vector<Job> jobs = {JobNamed("a"), JobNamed("b"), JobNamed("c")};
  const std::vector<Room> needs = {{.cores = 2}, {.cores = 7}, {.cores = 2}};
  EXPECT_THAT(TakeTurns(jobs, needs, {.cores = 16}).admitted, ElementsAre("a", "b", "c"));
  const Turns turns = TakeTurns(jobs, needs, {.cores = 8});
  EXPECT_THAT(turns.admitted, ElementsAre("a")) << "c does not overtake b";
  EXPECT_EQ(turns.waits.at("b"), "waits for 7 cores, 6 of 8 free");
  EXPECT_EQ(turns.waits.at("c"), "waits behind b, which came before it; it is number 2 in the queue");
}

TEST(TurnsTest, EachOfTheThreeIsCounted) {
  const Room all = {.cores = 8, .memory = 16 * kGiB, .gpus = 2};
  const Room held = {.cores = 2, .memory = 10 * kGiB, .gpus = 1};
  struct Case {
    Room need;
    std::string waits;
  };
  const Case cases[] = {
      {{.cores = 6, .memory = 6 * kGiB, .gpus = 1}, ""},
      {{.cores = 7, .memory = 6 * kGiB, .gpus = 1}, "waits for 7 cores, 6 of 8 free"},
      {{.cores = 6, .memory = 7 * kGiB, .gpus = 1}, "waits for about 7.0 GiB of memory, 6.0 GiB of 16.0 GiB free"},
      {{.cores = 6, .memory = 6 * kGiB, .gpus = 2}, "waits for 2 GPUs, 1 of 2 free"},
      {{.cores = 8, .memory = 0, .gpus = 2}, "waits for 8 cores, 6 of 8 free; 2 GPUs, 1 of 2 free"},
  };
  for (const Case& c : cases) {
    const Turns turns = TakeTurns({JobNamed("a", JobState::kRunning), JobNamed("b")}, {held, c.need}, all);
    EXPECT_EQ(turns.admitted.size(), c.waits.empty() ? 1u : 0u) << c.waits;
    EXPECT_EQ(turns.waits.contains("b") ? turns.waits.at("b") : "", c.waits);
  }
}

TEST(TurnsTest, AJobWithMoreCoresThanTheMachineRunsAlone) {
  EXPECT_THAT(TakeTurns({JobNamed("a"), JobNamed("b")}, {{.cores = 20}, {.cores = 1}}, {.cores = 2}).admitted,
              ElementsAre("a"));
  const std::vector<Job> jobs = {JobNamed("a", JobState::kRunning), JobNamed("b")};
  EXPECT_THAT(TakeTurns(jobs, {{.cores = 20}, {.cores = 1}}, {.cores = 2}).admitted, IsEmpty());
}

TEST(TurnsTest, WhatCouldNeverRunIsRefusedAndHoldsUpNobody) {
  const Room all = {.cores = 8, .memory = 16 * kGiB, .gpus = 1};
  const std::vector<Job> jobs = {JobNamed("large"), JobNamed("gpus"), JobNamed("small")};
  const Turns turns = TakeTurns(jobs, {{.cores = 1, .memory = 17 * kGiB}, {.cores = 1, .gpus = 2}, {.cores = 1}}, all);
  EXPECT_THAT(turns.refused.at("large"), HasSubstr("needs about 17.0 GiB of memory, and jobs may have 16.0 GiB here"));
  EXPECT_THAT(turns.refused.at("gpus"), HasSubstr("asks for 2 GPUs, and jobs may have 1 here"));
  EXPECT_THAT(turns.admitted, ElementsAre("small"));
  EXPECT_THAT(turns.waits, IsEmpty());
}

TEST(TurnsTest, WhatHoldsIsWhateverMayRun) {
  for (const JobState state : {JobState::kPreparing, JobState::kRunning, JobState::kCancelling}) {
    const std::vector<Job> jobs = {JobNamed("a", state), JobNamed("b")};
    const std::vector<Room> needs = {{.cores = 2, .gpus = 1}, {.cores = 2, .gpus = 1}};
    EXPECT_THAT(TakeTurns(jobs, needs, {.cores = 2, .gpus = 2}).admitted, IsEmpty()) << NameOf(state);
    EXPECT_THAT(TakeTurns(jobs, needs, {.cores = 4, .gpus = 1}).admitted, IsEmpty()) << NameOf(state);
    EXPECT_THAT(TakeTurns(jobs, needs, {.cores = 4, .gpus = 2}).admitted, ElementsAre("b")) << NameOf(state);
  }
}

TEST(TurnsTest, WhatRunsMayHoldMoreThanThereIsNow) {
  const std::vector<Job> jobs = {JobNamed("a", JobState::kRunning), JobNamed("b")};
  const std::vector<Room> needs = {{.cores = 4, .memory = 9 * kGiB, .gpus = 4}, {.cores = 1, .memory = 1, .gpus = 0}};
  EXPECT_THAT(TakeTurns(jobs, needs, {.cores = 8, .memory = 8 * kGiB, .gpus = 2}).admitted, IsEmpty());
}

TEST(TurnsTest, ASearchWaitsForWhatItsFirstTrialWaitsFor) {
  const std::vector<Job> jobs = {JobNamed("wd", JobState::kRunning), JobNamed("wd/1", JobState::kRunning),
                                 JobNamed("later"), JobNamed("wd/9"), JobNamed("wd/10")};
  const auto waits = WaitsOfSearches(jobs, {{"later", "waits for 2 cores"},
                                            {"wd/10", "waits behind wd/9, which came before it"},
                                            {"wd/9", "waits behind later, which came before it"}});
  EXPECT_THAT(waits, ElementsAre(testing::Pair("wd", "trial 9 waits behind later, which came before it")));
}

}  // namespace
}  // namespace downpour
