#include "runtime/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace downpour {
namespace {

constexpr uint64_t kJobSteps = 1000;

double ShareAt(const ScheduleSpec& schedule, uint64_t step) { return RateShare(schedule, step, kJobSteps); }

TEST(RateShareTest, WithoutAScheduleItIsAll) {
  for (const uint64_t step : {uint64_t{0}, uint64_t{7}, UINT64_MAX}) EXPECT_EQ(ShareAt({}, step), 1);
}

TEST(RateShareTest, AWarmUpIsAStraightLineForEachSchedule) {
  for (const ScheduleKind kind :
       {ScheduleKind::kConstant, ScheduleKind::kStep, ScheduleKind::kCosine, ScheduleKind::kInverseSquareRoot}) {
    const ScheduleSpec schedule = {.kind = kind, .warmup_steps = 8, .step_every = 5};
    for (uint64_t step = 0; step < 8; ++step) EXPECT_EQ(ShareAt(schedule, step), static_cast<double>(step + 1) / 8);
    EXPECT_NEAR(ShareAt(schedule, 8), 1, 0.06) << "and then the schedule begins at the top";
  }
}

TEST(RateShareTest, StepsGoDownOneAfterTheOther) {
  const ScheduleSpec schedule = {.kind = ScheduleKind::kStep, .warmup_steps = 2, .step_every = 10, .decay = 0.5};
  for (const auto& [step, share] : {std::pair(2, 1.0), {11, 1.0}, {12, 0.5}, {21, 0.5}, {22, 0.25}}) {
    EXPECT_EQ(ShareAt(schedule, static_cast<uint64_t>(step)), share) << step;
  }
  EXPECT_EQ(ShareAt(schedule, UINT64_MAX), 0) << "below what a double holds";
}

TEST(RateShareTest, ACosineEndsWithTheJobOrWhereItIsTold) {
  for (const int64_t total : {0, 400}) {
    const ScheduleSpec schedule = {
        .kind = ScheduleKind::kCosine, .warmup_steps = 100, .final_share = 0.25, .total_steps = total};
    const double end = total == 0 ? kJobSteps : 400;
    for (uint64_t step = 100; step < static_cast<uint64_t>(end); ++step) {
      const double done = (static_cast<double>(step) - 100) / (end - 100);
      EXPECT_NEAR(ShareAt(schedule, step), 0.25 + 0.75 * (1 + std::cos(std::numbers::pi * done)) / 2, 1e-15);
    }
    EXPECT_EQ(ShareAt(schedule, static_cast<uint64_t>(end)), 0.25);
    EXPECT_EQ(ShareAt(schedule, UINT64_MAX), 0.25);
  }
}

TEST(RateShareTest, AJobShorterThanItsWarmUpEndsInIt) {
  const ScheduleSpec schedule = {.kind = ScheduleKind::kCosine, .warmup_steps = 2000, .final_share = 0.5};
  EXPECT_EQ(ShareAt(schedule, 999), 0.5);
  EXPECT_EQ(ShareAt(schedule, 2000), 0.5) << "with pushes that a raised number of epochs would bring";
}

TEST(RateShareTest, TheInverseSquareRootIsThatOfTheSteps) {
  EXPECT_EQ(ShareAt({.kind = ScheduleKind::kInverseSquareRoot}, 99), 0.1);
  EXPECT_EQ(ShareAt({.kind = ScheduleKind::kInverseSquareRoot, .warmup_steps = 100}, 399), 0.5);
}

}  // namespace
}  // namespace downpour
