#include "cluster/restart_budget.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

class RestartBudgetTest : public ::testing::Test {
 protected:
  void End(int times, double progress, const std::string& task = "w") {
    for (int i = 0; i < times; ++i) budget_.Spend(task, progress, 1min, "ended");
  }
  RestartBudget budget_;
};

TEST_F(RestartBudgetTest, FiveTimesWithoutProgressThenItIsSpent) {
  End(5, 7);
  EXPECT_FALSE(budget_.Of("w").spent());
  End(1, 7);
  EXPECT_TRUE(budget_.Of("w").spent());
  EXPECT_EQ(budget_.Of("w").ends, 6);
  EXPECT_FALSE(budget_.Of("another").spent());
}

TEST_F(RestartBudgetTest, ProgressRefillsButNumbersGoOn) {
  End(6, 7);
  EXPECT_EQ(budget_.Spend("w", 8, 1min, "ended").attempt, 7u);
  EXPECT_FALSE(budget_.Of("w").spent());
  End(5, 8);
  EXPECT_TRUE(budget_.Of("w").spent());
}

TEST_F(RestartBudgetTest, ProgressThatSeemsToFallBackRefillsNothing) {
  for (int i = 0; i < 6; ++i) End(1, i % 2 == 0 ? 8 : 0);
  EXPECT_TRUE(budget_.Of("w").spent());
}

TEST_F(RestartBudgetTest, WorkOfItsOwnRefillsTheBudgetAndEndsTheWaiting) {
  for (int i = 0; i < 6; ++i) budget_.Spend("w", 7, 10ms, "ended");
  budget_.Refill("another");
  EXPECT_TRUE(budget_.Of("w").spent());
  budget_.Refill("w");
  EXPECT_FALSE(budget_.Of("w").spent());
  EXPECT_EQ(budget_.Of("w").ends, 0);
  EXPECT_EQ(budget_.Spend("w", 7, 10ms, "ended").delay, 100ms);
  EXPECT_EQ(budget_.Of("w").ends, 1);
}

TEST_F(RestartBudgetTest, RemembersTheFirstEndSinceProgressAndTheLast) {
  budget_.Spend("w", 1, 1min, "long ago");
  budget_.Spend("w", 2, 1min, "first");
  budget_.Spend("w", 2, 1min, "second");
  EXPECT_EQ(budget_.Of("w").first_end, "first");
  EXPECT_EQ(budget_.Of("w").last_end, "second");
}

TEST_F(RestartBudgetTest, ShortLivesWaitLongerEachTimeWhateverOthersAchieve) {
  double progress = 0;
  const auto delay = [&](RestartBudget::Duration lived) {
    return budget_.Spend("w", ++progress, lived, "ended").delay;
  };
  for (const auto expected : {100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000}) {
    EXPECT_EQ(delay(10s), expected * 1ms) << "as long as Python code may take to be loaded";
  }
  EXPECT_EQ(delay(1min), 0ms);
  EXPECT_EQ(delay(10ms), 100ms);
}

TEST_F(RestartBudgetTest, AnEndThatIsLookedIntoFirstWaitsLongerEachTimeToo) {
  const auto delay = [this] { return budget_.Spend("w", 7, 10s, "exit code 1", 1s).delay; };
  for (const auto expected : {1s, 2s, 4s, 8s, 16s, 30s, 30s}) EXPECT_EQ(delay(), expected);
  budget_.Refill("w");
  EXPECT_EQ(delay(), 1s);
}

}  // namespace
}  // namespace downpour
