#include "chief/known/watchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr PeerId kOne{100}, kOther{101};
StatusRequest In(uint64_t ms) { return {.again_in_ms = ms}; }

TEST(WatchersTest, WhoAsksOnceIsNone) {
  Watchers watchers;
  watchers.Asked(Time{0s}, kOne, {});
  EXPECT_THAT(watchers.Waiting(Time{0s}), IsEmpty());
}

TEST(WatchersTest, OneWaitsUntilItKnowsOrIsOverdue) {
  Watchers watchers;
  watchers.Asked(Time{0s}, kOne, In(1000));
  watchers.Asked(Time{0s}, kOther, In(60'000));
  EXPECT_THAT(watchers.Waiting(Time{5s}), ElementsAre(kOne, kOther));
  EXPECT_THAT(watchers.Waiting(Time{6s}), ElementsAre(kOther));
  watchers.Asked(Time{7s}, kOne, In(1000));
  EXPECT_THAT(watchers.Waiting(Time{12s}), ElementsAre(kOther, kOne));
  watchers.Asked(Time{12s}, kOther, {.knows_end = true});
  EXPECT_THAT(watchers.Waiting(Time{12s}), ElementsAre(kOne));
}

TEST(WatchersTest, TheirNumberAndTheirPausesAreBounded) {
  Watchers watchers;
  for (uint64_t i = 0; i < 2 * Watchers::kMost; ++i) watchers.Asked(Time{0s}, PeerId{100 + i}, In(UINT64_MAX));
  EXPECT_THAT(watchers.Waiting(Time{10s}), SizeIs(Watchers::kMost));
  EXPECT_THAT(watchers.Waiting(Time{Watchers::kLongestPause + Watchers::kOverdueAfter}), IsEmpty());
}

}  // namespace
}  // namespace downpour
