#include "chief/known/checkpoint_interval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/prng.h"

namespace downpour {
namespace {

using End = CheckpointInterval::End;
using ::testing::DoubleNear;
using ::testing::HasSubstr;

CheckpointSpec Every(std::optional<Duration> every) {
  CheckpointSpec spec;
  spec.every = every;
  return spec;
}

Duration Of(double seconds) { return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)); }

// A job whose workers commit so many leases a second between rounds, and in them whatever a test says.
class CheckpointIntervalTest : public ::testing::Test {
 protected:
  CheckpointIntervalTest() { interval.Begin(now, {}, {}); }

  void Observe() { interval.Observe({now, static_cast<uint64_t>(work), servers_lost, steady, collecting}); }
  // `going_on`: the share of the work that goes on meanwhile.
  void Work(double seconds, double going_on = 1) {
    for (double left = seconds; left > 1e-9; left -= 0.01) {
      const double part = std::min(left, 0.01);
      now += Of(part);
      work += rate * going_on * part;
      Observe();
    }
  }
  void RunRound(double seconds, double going_on, bool urgent = false, End end = End::kDurable) {
    interval.RoundBegins(now, urgent);
    Work(folder);
    collecting = true;
    Observe();
    Work(seconds, going_on);
    collecting = false;
    Observe();
    Work(manifest);
    interval.RoundEnds(now, end);
    Observe();
  }
  void RunRounds(int rounds, double seconds, double going_on) {
    for (int i = 0; i < rounds; ++i) {
      Work(5);
      RunRound(seconds, going_on);
    }
  }
  double IntervalSeconds() { return Seconds(*interval.Interval()); }

  Time now{1000s};
  double rate = 100;  // leases a second
  double work = 0;
  uint64_t servers_lost = 0;
  bool steady = true;
  bool collecting = false;
  double folder = 0;    // seconds before a round's records are asked for
  double manifest = 0;  // and after all have come
  CheckpointInterval interval{Every({})};
};

// What a job takes for each second of its work, where checkpoints that cost `cost` are `interval` apart and it begins
// again at the last one `mtbf` apart: Daly's complete model, of which his interval is an estimate of the optimum.
double TimePerWork(double interval, double cost, double mtbf) {
  return mtbf * std::expm1((interval + cost) / mtbf) / interval;
}

TEST(DalyIntervalTest, IsTheOptimumOfItsModel) {
  for (const double mtbf : {5.0, 60.0, 3600.0, 1e6}) {
    for (double part = 1e-6; part < 1; part *= 3) {
      const double cost = part * mtbf;
      double best = std::numeric_limits<double>::infinity();
      for (double t = cost / 100; t < 100 * mtbf; t *= 1.01) best = std::min(best, TimePerWork(t, cost, mtbf));
      EXPECT_LT(TimePerWork(DalyInterval(cost, mtbf), cost, mtbf), 1.005 * best) << cost << " of " << mtbf;
    }
    EXPECT_EQ(DalyInterval(2 * mtbf, mtbf), mtbf);
    EXPECT_EQ(DalyInterval(1e9, mtbf), mtbf);
    EXPECT_EQ(DalyInterval(0, mtbf), 0);
  }
}

TEST_F(CheckpointIntervalTest, TheFirstRoundComesSoonSinceItTellsWhatRoundsCost) {
  EXPECT_EQ(interval.Interval(), CheckpointInterval::kLeast);
  EXPECT_EQ(interval.CostSeconds(), std::nullopt);
  EXPECT_THAT(interval.Why(), HasSubstr("no round was measured yet"));
  Work(0.99);
  EXPECT_FALSE(interval.IsDue(now));
  Work(0.02);
  EXPECT_TRUE(interval.IsDue(now));
}

TEST_F(CheckpointIntervalTest, ARoundInWhichNothingIsDoneCostsAllOfIt) {
  RunRounds(3, 0.05, 0);
  EXPECT_THAT(*interval.CostSeconds(), DoubleNear(0.05, 0.001));
  EXPECT_THAT(IntervalSeconds(), DoubleNear(5, 0.1));
  EXPECT_THAT(interval.Why(), HasSubstr("at most 1 % goes into them"));
  EXPECT_FALSE(interval.IsDue(now + 4s));
  EXPECT_TRUE(interval.IsDue(now + 5s + 100ms));
}

TEST_F(CheckpointIntervalTest, ARoundCostsWhatWorkersLoseByIt) {
  RunRounds(200, 4, 0.5);  // 200 commits in each, some 32 rounds remembered: a root of 80 commits
  EXPECT_THAT(*interval.RoundSeconds(), DoubleNear(4, 0.01));
  EXPECT_THAT(*interval.CostSeconds(), DoubleNear(2 + 0.80 / 32, 0.02));
  EXPECT_THAT(IntervalSeconds(), DoubleNear(200, 10));
}

TEST_F(CheckpointIntervalTest, WhatTheChiefWaitsForItsDiskCostsNobodyElse) {
  folder = 0.3;
  manifest = 0.5;
  RunRounds(20, 0.02, 0);
  EXPECT_THAT(*interval.RoundSeconds(), DoubleNear(0.02, 0.001));
  EXPECT_THAT(*interval.CostSeconds(), DoubleNear(0.02, 0.001));
  RunRounds(200, 1, 1);
  EXPECT_THAT(*interval.CostSeconds(), DoubleNear(CheckpointInterval::kLeastCost, 0.01));
}

TEST_F(CheckpointIntervalTest, WhatFewCommitsShowIsNotReliedOn) {
  rate = 1;
  Work(5);
  RunRound(1, 1);
  EXPECT_THAT(*interval.CostSeconds(), DoubleNear(1, 0.01)) << "one commit, give or take one";
  RunRounds(200, 1, 1);
  EXPECT_THAT(*interval.CostSeconds(), DoubleNear(0.18, 0.03)) << "32 of them, give or take 6";
}

TEST_F(CheckpointIntervalTest, ARoundThatCostsNothingIsTakenToCostALittle) {
  RunRounds(100, 4, 1);
  EXPECT_THAT(*interval.CostSeconds(), DoubleNear(4 * CheckpointInterval::kLeastCost, 0.001));
  RunRounds(100, 4, 1.5);
  EXPECT_THAT(*interval.CostSeconds(), DoubleNear(4 * CheckpointInterval::kLeastCost, 0.001));
}

TEST_F(CheckpointIntervalTest, ARoundIsHeldAgainstTheTimeBeforeItWhileEverySliceIsServed) {
  RunRounds(200, 4, 0.5);
  const double cost = *interval.CostSeconds();
  for (int i = 0; i < 50; ++i) {
    Work(5);
    steady = false;  // a ps is away: nothing is done
    Work(20, 0);
    steady = true;
    Work(3, 0);  // workers begin again, and have nothing to commit yet
    RunRounds(1, 4, 0.5);
  }
  EXPECT_THAT(*interval.CostSeconds(), DoubleNear(cost, 0.02));
}

TEST_F(CheckpointIntervalTest, WhatAnUrgentOrAbandonedRoundCostsSaysNothing) {
  RunRounds(5, 0.05, 0);
  const CheckpointHistory before = interval.history();
  RunRound(3, 0, /*urgent=*/true);
  RunRound(3, 0, /*urgent=*/false, End::kAbandoned);
  EXPECT_EQ(interval.history().rounds, before.rounds);
  EXPECT_EQ(interval.history().inside, before.inside);
  RunRounds(20, 0.05, 0);
  EXPECT_THAT(*interval.CostSeconds(), DoubleNear(0.05, 0.001));
}

TEST_F(CheckpointIntervalTest, WhereLossesAreRareRoundsAreTooAndLossesBringThemCloser) {
  RunRounds(30, 0.01, 0);
  EXPECT_THAT(IntervalSeconds(), DoubleNear(2.0, 0.3)) << "three minutes without any";
  now += std::chrono::hours(5);
  Observe();
  const double calm = IntervalSeconds();
  EXPECT_THAT(calm, DoubleNear(DalyInterval(*interval.CostSeconds(), 3660), 0.01)) << "no more is remembered";
  EXPECT_THAT(interval.Why(), HasSubstr("the loss of a ps is expected every 3660 s"));
  servers_lost = 1;
  Observe();
  EXPECT_THAT(IntervalSeconds(), DoubleNear(calm / std::sqrt(2), 0.05));
  servers_lost = 100;
  Observe();
  EXPECT_THAT(IntervalSeconds(), DoubleNear(1, 0.05));
  EXPECT_GE(IntervalSeconds() + 1e-6, *interval.CostSeconds() / CheckpointInterval::kMostShare)
      << "1 % whatever is lost: what is computed again is paid once, rounds are paid for always";
  for (int i = 0; i < 10 * 3600; ++i) {
    now += 1s;
    Observe();
  }
  EXPECT_THAT(IntervalSeconds(), DoubleNear(calm, 0.05)) << "they were hours ago";
}

TEST_F(CheckpointIntervalTest, NoLossHasToBeSeenForTheFirstToBeCheap) {
  RunRounds(1, 0.001, 0);
  EXPECT_EQ(interval.Interval(), CheckpointInterval::kLeast);
  EXPECT_THAT(interval.Why(), HasSubstr("; 1 s at least"));
}

TEST_F(CheckpointIntervalTest, StaysBetweenASecondAndTenMinutes) {
  RunRounds(20, 0.00001, 0);
  EXPECT_EQ(interval.Interval(), CheckpointInterval::kLeast);
  RunRounds(20, 100, 0);
  EXPECT_EQ(interval.Interval(), CheckpointInterval::kMost);
  EXPECT_THAT(interval.Why(), HasSubstr("; 10 min at most"));
  servers_lost = std::numeric_limits<uint64_t>::max();
  Observe();
  EXPECT_EQ(interval.Interval(), CheckpointInterval::kMost);
}

TEST_F(CheckpointIntervalTest, WhereServersDieOftenRoundsMayTakeATenth) {
  RunRounds(20, 0.2, 0);
  EXPECT_NEAR(Seconds(*interval.Interval()), 20, 2);
  servers_lost = 1000;
  Observe();
  EXPECT_NEAR(Seconds(*interval.Interval()), 2, 0.2);
  EXPECT_THAT(interval.Why(), HasSubstr("the loss of a ps is expected every 0.2 s, and at most 10 % goes into them"));
}

TEST_F(CheckpointIntervalTest, ARoundOfNoTimeIsAsCheapAsCanBe) {
  for (int i = 0; i < 3; ++i) RunRound(0, 0);
  EXPECT_EQ(interval.Interval(), CheckpointInterval::kLeast);
}

TEST_F(CheckpointIntervalTest, ADiskThatFailedIsLeftAloneForAWhile) {
  RunRound(0.001, 0, /*urgent=*/false, End::kDiskFailed);
  Work(9.9);
  EXPECT_FALSE(interval.IsDue(now));
  Work(0.2);
  EXPECT_TRUE(interval.IsDue(now));
  RunRound(0.001, 0, /*urgent=*/false, End::kAbandoned);
  Work(1.01);
  EXPECT_TRUE(interval.IsDue(now)) << "a ps that went is no reason to wait for longer";
}

TEST_F(CheckpointIntervalTest, RoundsThatCannotSucceedBecomeRare) {
  const auto pause = [&] {
    RunRound(20, 0, /*urgent=*/false, End::kAbandoned);
    const Time ended = now;
    while (!interval.IsDue(now)) Work(0.125);
    return Seconds(now - ended);
  };
  for (const double seconds : {1, 2, 4, 8, 16, 32, 60, 60}) EXPECT_THAT(pause(), DoubleNear(seconds, 0.13));
  RunRound(20, 0, /*urgent=*/true, End::kStopped);
  EXPECT_TRUE(interval.IsDue(now)) << "it made room for another";
  RunRound(0.001, 0);
  EXPECT_THAT(pause(), DoubleNear(1, 0.13)) << "one succeeded";
}

TEST_F(CheckpointIntervalTest, TheNextChiefKnowsWhatThisOneLearned) {
  servers_lost = 3;
  RunRounds(20, 0.2, 0.5);
  CheckpointInterval next{Every({})};
  next.Begin(Time(5s), {}, interval.history());
  EXPECT_EQ(next.Interval(), interval.Interval());
  EXPECT_FALSE(next.IsDue(Time(6s)));
  next.Observe({Time(5s), 0, 5, true, false});
  EXPECT_EQ(next.history().losses, interval.history().losses + 2) << "those that were lost while no chief was there";
}

TEST_F(CheckpointIntervalTest, AHistoryThatCannotBeIsNone) {
  const double bad[] = {-1, 1e300, std::numeric_limits<double>::infinity(), std::nan("")};
  for (double CheckpointHistory::*sum :
       {&CheckpointHistory::lived, &CheckpointHistory::losses, &CheckpointHistory::rounds, &CheckpointHistory::inside,
        &CheckpointHistory::inside_commits, &CheckpointHistory::outside, &CheckpointHistory::outside_commits}) {
    for (const double value : bad) {
      CheckpointHistory history{
          .lived = 100, .rounds = 3, .inside = 3, .inside_commits = 9, .outside = 100, .outside_commits = 900};
      history.*sum = value;
      CheckpointInterval next{Every({})};
      next.Begin(now, {}, history);
      EXPECT_EQ(next.CostSeconds(), std::nullopt) << value;
      EXPECT_EQ(next.Interval(), CheckpointInterval::kLeast) << value;
    }
  }
}

TEST_F(CheckpointIntervalTest, AJobFileThatSaysHowOftenIsObeyed) {
  CheckpointInterval often{Every(50ms)};
  often.Begin(now, {}, interval.history());
  EXPECT_FALSE(often.IsDue(now + 49ms));
  EXPECT_TRUE(often.IsDue(now + 50ms));
  often.RoundBegins(now + 60ms, false);
  often.RoundEnds(now + 61ms, End::kDiskFailed);
  EXPECT_FALSE(often.IsDue(now + 100ms));
  EXPECT_TRUE(often.IsDue(now + 110ms));
  EXPECT_THAT(often.Why(), HasSubstr("checkpoint.every"));

  CheckpointInterval never{Every(0s)};
  never.Begin(now, {}, {});
  EXPECT_FALSE(never.IsDue(now + std::chrono::hours(1000)));
  EXPECT_EQ(never.Interval(), std::nullopt);
}

TEST_F(CheckpointIntervalTest, ARoundThatSomebodyWantsIsDueUntilOneThatBeganThenIsDurable) {
  CheckpointInterval never{Every(0s)};
  never.Begin(now, {}, {});
  never.WantRound();
  EXPECT_TRUE(never.IsDue(now));
  never.RoundBegins(now, false);
  EXPECT_FALSE(never.IsDue(now));
  never.RoundEnds(now, End::kAbandoned);
  EXPECT_FALSE(never.IsDue(now)) << "what failed is left alone for a while";
  EXPECT_TRUE(never.IsDue(now + CheckpointInterval::kLeast));
  never.RoundBegins(now, false);
  never.RoundEnds(now, End::kDurable);
  EXPECT_FALSE(never.IsDue(now + std::chrono::hours(1)));
  never.RoundBegins(now, false);
  never.WantRound();  // what was committed since is not in that one
  never.RoundEnds(now, End::kDurable);
  EXPECT_TRUE(never.IsDue(now + CheckpointInterval::kLeast));
}

TEST_F(CheckpointIntervalTest, AWishGoesOnToTheRoundThatTakesTheFirstOnesPlace) {
  CheckpointInterval never{Every(0s)};
  never.Begin(now, {}, {});
  never.WantRound();
  never.RoundBegins(now, false);
  never.RoundBegins(now, true);  // for a ps that is to stop
  never.RoundEnds(now, End::kAbandoned);
  EXPECT_TRUE(never.IsDue(now + CheckpointInterval::kLeast));
}

// Whatever a round leaves to workers, and lasts: up to 4 s, since 10 minutes pay for 6.
TEST_F(CheckpointIntervalTest, RoundsTakeAHundredthOfTheThroughputAtMost) {
  Prng prng(1);
  for (int job = 0; job < 100; ++job) {
    interval.Begin(now, {}, {});
    rate = std::pow(10, -1 + 3 * prng.Uniform());
    const double lasts = std::pow(10, -3 + 3.6 * prng.Uniform());
    const double going_on = prng.Chance(0.3) ? 0 : prng.Uniform();
    const Time began = now;
    double lost = 0;
    for (int round = 0; round < 100; ++round) {
      // As busy machines are, now faster and now slower.
      while (!interval.IsDue(now)) Work(std::max(0.01, IntervalSeconds() / 20), 0.8 + 0.4 * prng.Uniform());
      const double seconds = lasts * (0.5 + prng.Uniform());
      const double share = going_on * (0.8 + 0.4 * prng.Uniform());
      RunRound(seconds, share);
      lost += seconds * (1 - share);
    }
    EXPECT_LT(lost / Seconds(now - began), 0.0115)
        << "rate " << rate << ", lasts " << lasts << ", goes on " << going_on;
  }
}

TEST(CheckpointIntervalOfLaterChiefsTest, TheTimeSinceTheLastCheckpointCounts) {
  for (const Duration since : {Duration{3s}, Duration{60s}}) {
    CheckpointInterval next(Every(5s));
    next.Begin(Time(1s), since, {});
    EXPECT_EQ(next.IsDue(Time(1s)), since >= 5s);
    EXPECT_TRUE(next.IsDue(Time(3s)));
    next.RoundBegins(Time(3s), false);
    next.RoundEnds(Time(4s), End::kDurable);
    EXPECT_FALSE(next.IsDue(Time(7s)));
    EXPECT_TRUE(next.IsDue(Time(8s)));
  }
}

}  // namespace
}  // namespace downpour
