#include "tools/restart_budget.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;

TEST(RestartBudgetTest, FiveTimesWithoutProgressThenNoMore) {
  RestartBudget budget;
  for (uint32_t attempt = 1; attempt <= 5; ++attempt) {
    const auto restart = budget.Spend("worker-0", 7, 1min, "ended");
    ASSERT_TRUE(restart.has_value());
    EXPECT_EQ(restart->attempt, attempt);
  }
  EXPECT_FALSE(budget.Spend("worker-0", 7, 1min, "ended").has_value());
  EXPECT_TRUE(budget.Spend("worker-1", 7, 1min, "ended").has_value());
}

TEST(RestartBudgetTest, ProgressRefillsButNumbersGoOn) {
  RestartBudget budget;
  for (int i = 0; i < 5; ++i) budget.Spend("worker-0", 7, 1min, "ended");
  const auto restart = budget.Spend("worker-0", 8, 1min, "ended");
  ASSERT_TRUE(restart.has_value());
  EXPECT_EQ(restart->attempt, 6u);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(budget.Spend("worker-0", 8, 1min, "ended").has_value());
  EXPECT_FALSE(budget.Spend("worker-0", 8, 1min, "ended").has_value());
}

TEST(RestartBudgetTest, ProgressThatSeemsToFallBackRefillsNothing) {
  RestartBudget budget;
  for (int i = 0; i < 5; ++i) budget.Spend("worker-0", i % 2 == 0 ? 8 : 0, 1min, "ended");
  EXPECT_FALSE(budget.Spend("worker-0", 8, 1min, "ended").has_value());
}

TEST(RestartBudgetTest, RemembersTheFirstEndSinceProgress) {
  RestartBudget budget;
  budget.Spend("w", 1, 1min, "long ago");
  budget.Spend("w", 2, 1min, "first");
  budget.Spend("w", 2, 1min, "second");
  EXPECT_EQ(budget.FirstEnd("w"), "first");
}

TEST(RestartBudgetTest, ShortLivesWaitLongerEachTimeWithoutProgress) {
  RestartBudget budget;
  const auto delay = [&](double progress, RestartBudget::Duration lived) {
    return budget.Spend("w", progress, lived, "ended")->delay;
  };
  EXPECT_EQ(delay(1, 10ms), 100ms);
  EXPECT_EQ(delay(1, 10ms), 200ms);
  EXPECT_EQ(delay(1, 10ms), 400ms);
  EXPECT_EQ(delay(1, 1min), 0ms);
  EXPECT_EQ(delay(1, 10ms), 1600ms);
  EXPECT_EQ(delay(2, 10ms), 100ms);
}

}  // namespace
}  // namespace downpour
