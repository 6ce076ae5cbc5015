#include "service/prediction_bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace downpour {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr steady_clock::time_point kBegun(std::chrono::hours(1));

TEST(PredictionBounds, ARequestIsComputedForAsLongAsItMayTake) {
  const PredictionBounds bounds{.begun = kBegun, .most = milliseconds(1500)};
  EXPECT_TRUE(WhyEnd(bounds, kBegun, 0, 10).ok());
  EXPECT_TRUE(WhyEnd(bounds, kBegun + milliseconds(1499), 9, 10).ok());
  const absl::Status late = WhyEnd(bounds, kBegun + milliseconds(1500), 256, 60000);
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(late.message(), testing::HasSubstr("may take 1.5 s, in which 256 of its 60000 rows were computed: send "
                                                 "fewer"));
}

TEST(PredictionBounds, NothingIsComputedForWhoHasHungUp) {
  bool has_gone = false;
  const PredictionBounds bounds{.begun = kBegun, .has_gone = [&] { return has_gone; }};
  EXPECT_TRUE(WhyEnd(bounds, kBegun, 0, 10).ok());
  has_gone = true;
  EXPECT_EQ(WhyEnd(bounds, kBegun, 1, 10).code(), absl::StatusCode::kCancelled);
}

TEST(PredictionBounds, AServiceThatEndsSaysSoThoughItReadsNoConnectionAnyMore) {
  std::atomic<bool> ends = false;
  const PredictionBounds bounds{.begun = kBegun, .has_gone = [&] { return ends.load(); }, .ends = &ends};
  EXPECT_TRUE(WhyEnd(bounds, kBegun, 0, 10).ok());
  ends = true;
  EXPECT_EQ(WhyEnd(bounds, kBegun, 1, 10).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace downpour
