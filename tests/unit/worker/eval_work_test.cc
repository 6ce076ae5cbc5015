#include "worker/eval_work.h"

#include <gtest/gtest.h>

#include <vector>

namespace downpour {
namespace {

constexpr Incarnation kMe{5};
constexpr PeerId kChief{1};

EvalGrant Part(uint64_t round, uint64_t first_batch) { return {kMe, round, first_batch, 4}; }

ParameterSet AtVersion(uint64_t n) {
  ParameterSet set(1);
  set.versions[0] = {{1, 1}, n};
  set.values[0] = Payload::Zeros(4);
  return set;
}

class EvalWorkTest : public testing::Test {
 protected:
  std::vector<EvalDone> Sent(Time now) {
    Effects effects;
    work_.Tick(now, 500ms, kChief, effects);
    std::vector<EvalDone> sent;
    for (const Effect& effect : effects.Take()) sent.push_back(std::get<EvalDone>(std::get<Send>(effect).message));
    return sent;
  }

  EvalWork work_;
  DeviceParameters device_{1};
};

TEST_F(EvalWorkTest, AllPartsOfARoundUseParametersPulledOnceAfterItsFirstGrant) {
  work_.Grant(Part(1, 0), /*pulls_begun=*/7);
  EXPECT_TRUE(work_.NeedsParameters());
  EXPECT_EQ(work_.needed_pull(), 8u);
  EXPECT_FALSE(work_.HasWork());
  work_.Start(AtVersion(3));
  EXPECT_EQ(work_.Next(device_, UINT64_MAX).updates.size(), 1u);
  ASSERT_TRUE(work_.Finish({.loss_sum = 1, .correct = 2, .examples = 4}, kMe, Time{}).has_value());

  work_.Grant(Part(1, 4), /*pulls_begun=*/20);
  EXPECT_FALSE(work_.NeedsParameters());
  device_.Load(AtVersion(9));  // training went on meanwhile
  EXPECT_EQ(work_.Next(device_, UINT64_MAX).updates.size(), 1u) << "back to the round's parameters";
  const std::optional<EvalDone> second = work_.Finish({.loss_sum = 1, .correct = 2, .examples = 4}, kMe, Time{});
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->newest_version, 3u);
  EXPECT_EQ(second->versions_digest, Summarize(AtVersion(3)).digest);
}

TEST_F(EvalWorkTest, AGrantThatComesAgainIsNotComputedTwice) {
  work_.Grant(Part(1, 0), 0);
  work_.Grant(Part(1, 0), 0);  // waiting
  work_.Start(AtVersion(1));
  work_.Next(device_, UINT64_MAX);
  work_.Grant(Part(1, 0), 0);  // at hand
  EXPECT_FALSE(work_.HasWork());
  work_.Finish({}, kMe, Time{});
  work_.Grant(Part(1, 0), 0);  // reported
  EXPECT_FALSE(work_.HasWork());
}

TEST_F(EvalWorkTest, ReportsUntilTheChiefHasIt) {
  work_.Grant(Part(1, 0), 0);
  work_.Start(AtVersion(1));
  work_.Next(device_, UINT64_MAX);
  work_.Finish({}, kMe, Time{});
  EXPECT_EQ(Sent(Time{}).size(), 1u);
  EXPECT_EQ(Sent(Time{} + 100ms).size(), 0u);
  EXPECT_EQ(Sent(Time{} + 500ms).size(), 1u);
  work_.Receive({.round = 1, .first_batch = 4});
  work_.Receive({.round = 2, .first_batch = 0});
  EXPECT_EQ(Sent(Time{} + 1s).size(), 1u) << "replies to others";
  work_.Receive({.round = 1, .first_batch = 0});
  EXPECT_EQ(Sent(Time{} + 2s).size(), 0u);
}

TEST_F(EvalWorkTest, ANewRoundDropsTheOld) {
  work_.Grant(Part(1, 0), 0);
  work_.Start(AtVersion(1));
  work_.Next(device_, UINT64_MAX);
  work_.Grant(Part(2, 0), 3);
  EXPECT_FALSE(work_.Finish({}, kMe, Time{}).has_value()) << "the result of a round that is over";
  EXPECT_TRUE(work_.NeedsParameters());
  work_.Grant(Part(1, 4), 3);  // late
  work_.Start(AtVersion(2));
  EXPECT_EQ(work_.Next(device_, UINT64_MAX).first_batch, 0u);
  EXPECT_FALSE(work_.HasWork());
}

}  // namespace
}  // namespace downpour
