#include "chief/known/job_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/chief/chief_harness.h"

namespace downpour {
namespace {

constexpr int64_t kDay = 86'400'000;
constexpr int64_t kBegan = 1'700'000'000'000;

StepContext StartedAt(int64_t unix_ms, int64_t steady_ms, const std::string& boot) {
  StepContext context;
  context.now = context.started = Time(std::chrono::milliseconds(steady_ms));
  context.started_unix_ms = unix_ms;
  context.boot = boot;
  return context;
}

const ClockMark kMark{.age_ms = 5000, .unix_ms = kBegan + 5000, .steady_ms = 70'000, .boot = "a"};

TEST(JobClockTest, OneBootsSteadyClockTellsThePauseWhateverTheCalendarSays) {
  for (const int64_t calendar : {int64_t{0}, kBegan - kDay, kBegan + 5000 * kDay}) {
    EXPECT_EQ(AgeAtStart(kMark, kBegan, StartedAt(calendar, 73'000, "a")), 8000) << calendar;
  }
}

TEST(JobClockTest, ElsewhereTheCalendarTellsItWhereItCanBeBelieved) {
  const auto age = [](int64_t calendar, const std::string& boot) {
    return AgeAtStart(kMark, kBegan, StartedAt(calendar, 1, boot));
  };
  for (const std::string boot : {"b", ""}) {
    EXPECT_EQ(age(kBegan + 7 * kDay, boot), 7 * kDay);
    EXPECT_EQ(age(kBegan - kDay, boot), 5000) << "it went back";
    EXPECT_EQ(age(kBegan + 5000 * kDay, boot), 5000) << "the one before had not been set";
  }
}

TEST(JobClockTest, AnEarlierReleaseLeftOnlyItsCalendar) {
  EXPECT_EQ(AgeAtStart({}, kBegan, StartedAt(kBegan + kDay, 1, "a")), kDay);
  EXPECT_EQ(AgeAtStart({}, kBegan, StartedAt(kBegan - kDay, 1, "a")), 0);
}

TEST(JobClockTest, AMarkIsWhatTheNextChiefCountsOnFrom) {
  StepContext context = StartedAt(kBegan, 70'000, "a");
  context.age_at_start_ms = 1000;
  context.now += 2s;
  EXPECT_EQ(MarkOf(context), (ClockMark{.age_ms = 3000, .unix_ms = kBegan + 2000, .steady_ms = 72'000, .boot = "a"}));
}

// The calendar is another one with the second chief: decades ahead, as where the first host's was never set, or behind.
TEST(JobClockTest, ACalendarThatJumpsBetweenChiefsMakesNothingOlderOrYounger) {
  for (const int64_t jump : {-5000 * kDay, 5000 * kDay}) {
    ChiefHarness first(SmallJob());
    first.Start();
    first.RunToRunning();
    first.worker[0].alive = false;
    first.Wait(12s);  // it is lost, and a checkpoint is durable
    const nlohmann::json before = first.Status();
    ASSERT_FALSE(before["failures"].empty());
    ASSERT_FALSE(before["checkpoint"]["path"].get<std::string>().empty());

    ChiefHarness next(SmallJob(), /*resume=*/false, first.disk);
    next.unix_ms = first.unix_ms + jump;
    next.Start();
    const nlohmann::json after = next.Status();
    EXPECT_NEAR(after["elapsedSeconds"], before["elapsedSeconds"], 6) << "its last journal entry may be older";
    EXPECT_NEAR(after["failures"][0]["ageSeconds"], before["failures"][0]["ageSeconds"], 6);
    EXPECT_LE(after["checkpoint"]["ageSeconds"], after["elapsedSeconds"]);
    EXPECT_GE(after["checkpoint"]["ageSeconds"], 0);
    EXPECT_EQ(after["startTimeUnixMs"], before["startTimeUnixMs"]);
    EXPECT_EQ(after["chief"]["unixMs"], next.unix_ms);
    next.JoinPs(0);
    next.Wait(3s);
    EXPECT_NEAR(next.Status()["elapsedSeconds"], after["elapsedSeconds"].get<double>() + 3, 0.5);
  }
}

}  // namespace
}  // namespace downpour
