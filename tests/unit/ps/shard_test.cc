#include "ps/shard.h"

#include <gtest/gtest.h>

#include <vector>

#include "ps/optimizer.h"
#include "runtime/initial_values.h"
#include "tests/scenario/tiny_job.h"

namespace downpour {
namespace {

constexpr SliceEpoch kFirst{1, 1}, kSecond{1, 2};

Shard TinyShard(OptimizerKind kind = OptimizerKind::kMomentum) {
  JobSpec job = TinyJob();
  job.training.optimizer = DefaultsOf(kind);
  return Shard(job, TinyGrid(), TinyPlan(), 7);
}
RestoreSlice RestoreOf(SliceId slice, SliceEpoch epoch, std::vector<Payload> blocks) {
  return {.slice = slice, .epoch = epoch, .blocks = std::move(blocks), .round = {}};
}
Assign::Item Initial(SliceId slice, SliceEpoch epoch) { return {slice, epoch, SliceSource::kInitialValues}; }
Assign::Item FromRecord(SliceId slice, SliceEpoch epoch) { return {slice, epoch, SliceSource::kCheckpoint}; }

SliceState Record(SliceId slice) {
  SliceState state;
  state.slice = slice;
  state.epoch = kFirst;
  state.version = 4;
  state.finished.Insert(0);
  state.counters = {{LeaseId{1}, 2}};
  state.values = Payload::Zeros(static_cast<size_t>(TinyGrid().at(slice).bytes()));
  state.slots = {Payload::Zeros(state.values.size())};
  return state;
}

TEST(ShardTest, InstallsInitialValuesWithinABudget) {
  Shard shard = TinyShard();
  ASSERT_TRUE(shard.Assign(Initial(kKernel, kFirst)));
  ASSERT_TRUE(shard.Assign(Initial(kBias, kFirst)));
  EXPECT_EQ(shard.Find(kKernel), nullptr);
  EXPECT_FALSE(shard.HasReport(kKernel));

  EXPECT_EQ(shard.InstallNext(1), std::vector{kKernel});
  EXPECT_EQ(shard.InstallNext(1), std::vector{kBias});
  EXPECT_TRUE(shard.InstallNext(1).empty());
  std::vector<float> expected(4);
  InitialValues(TinyJob().seed, TinyGrid(), kKernel, expected.data());
  const SliceState kernel = StateOf(kKernel, *shard.Find(kKernel));
  EXPECT_EQ((std::vector<float>{kernel.values.floats().begin(), kernel.values.floats().end()}), expected);
  EXPECT_EQ(kernel.slots.size(), 1u);
  EXPECT_EQ(shard.Find(kKernel)->CurrentVersion(), (Version{kFirst, 0}));
  EXPECT_EQ(shard.Report(kKernel).epoch, kFirst);
}

TEST(ShardTest, AnEpochOnlyRisesAndDropsWhatTheOldOneHeld) {
  Shard shard = TinyShard();
  shard.Assign(Initial(kBias, kSecond));
  shard.InstallNext(1);
  shard.Find(kBias)->counters.Consume(LeaseId{0}, 1, 3);
  EXPECT_FALSE(shard.Assign(Initial(kBias, kFirst)));
  EXPECT_TRUE(shard.Assign(Initial(kBias, kSecond)));
  EXPECT_EQ(shard.Find(kBias)->counters.open().size(), 1u) << "the same epoch again changes nothing";

  EXPECT_TRUE(shard.Assign(FromRecord(kBias, {2, 1})));
  EXPECT_EQ(shard.Find(kBias), nullptr);
  EXPECT_TRUE(shard.InstallNext(1).empty());
  EXPECT_EQ(shard.AwaitingRecords(), 1u);
}

// Two epochs have queued it: what was pushed since the first of them would be lost.
TEST(ShardTest, InitialValuesAreInstalledOnce) {
  Shard shard = TinyShard();
  shard.Assign(Initial(kBias, kFirst));
  shard.Assign(Initial(kBias, kSecond));
  EXPECT_EQ(shard.InstallNext(1), std::vector{kBias});
  shard.Find(kBias)->counters.Consume(LeaseId{0}, 1, 3);
  EXPECT_TRUE(shard.InstallNext(1).empty());
  EXPECT_EQ(shard.Find(kBias)->counters.open().size(), 1u);
}

TEST(ShardTest, ANewerEpochWithARecordIsNotFilledByAnOlderOnesInitialValues) {
  Shard shard = TinyShard();
  shard.Assign(Initial(kBias, kFirst));
  shard.Assign(FromRecord(kBias, kSecond));
  EXPECT_TRUE(shard.InstallNext(1).empty());
  EXPECT_EQ(shard.Find(kBias), nullptr);
}

TEST(ShardTest, RestoresThePairOfARecordInTheNewEpoch) {
  Shard shard = TinyShard();
  shard.Assign(FromRecord(kBias, kSecond));
  ASSERT_TRUE(shard.Restore(RestoreOf(kBias, kSecond, EncodeRecord(Record(kBias)))));
  const ServedSlice* slice = shard.Find(kBias);
  ASSERT_NE(slice, nullptr) << shard.Report(kBias).error;
  EXPECT_EQ(slice->CurrentVersion(), (Version{kSecond, 4}));
  EXPECT_EQ(slice->consumed, 5u);
  const SliceReport::Item report = shard.Report(kBias);
  EXPECT_TRUE(report.error.empty());
  EXPECT_TRUE(report.finished.Contains(0));
  shard.CheckAllCounts();
}

TEST(ShardTest, IgnoresRecordsThatNobodyWaitsFor) {
  Shard shard = TinyShard();
  const std::vector<Payload> record = EncodeRecord(Record(kBias));
  EXPECT_FALSE(shard.Restore(RestoreOf(kBias, kFirst, record))) << "not assigned";
  shard.Assign(FromRecord(kBias, kSecond));
  EXPECT_FALSE(shard.Restore(RestoreOf(kBias, kFirst, record))) << "of an older epoch";
  shard.Assign(Initial(kKernel, kFirst));
  const std::vector<Payload> other = EncodeRecord(Record(kKernel));
  EXPECT_FALSE(shard.Restore(RestoreOf(kKernel, kFirst, other))) << "begins with initial values";
  ASSERT_TRUE(shard.Restore(RestoreOf(kBias, kSecond, record)));
  shard.Find(kBias)->counters.Consume(LeaseId{2}, 1, 3);
  EXPECT_FALSE(shard.Restore(RestoreOf(kBias, kSecond, record))) << "doubled";
  EXPECT_EQ(shard.Find(kBias)->counters.open().size(), 2u);
}

TEST(ShardTest, ReportsARecordThatDoesNotFit) {
  const auto error_of = [](const std::vector<Payload>& blocks) {
    Shard shard = TinyShard();
    shard.Assign(FromRecord(kBias, kFirst));
    EXPECT_TRUE(shard.Restore(RestoreOf(kBias, kFirst, blocks)));
    EXPECT_EQ(shard.Find(kBias), nullptr);
    EXPECT_TRUE(shard.HasReport(kBias));
    return shard.Report(kBias).error;
  };
  SliceState no_slots = Record(kBias);
  no_slots.slots.clear();
  SliceState impossible = Record(kBias);
  impossible.counters = {{LeaseId{0}, 1}};
  EXPECT_NE(error_of(EncodeRecord(Record(kKernel))), "");
  EXPECT_NE(error_of(EncodeRecord(no_slots)), "");
  EXPECT_NE(error_of(EncodeRecord(impossible)), "");
  EXPECT_NE(error_of({}), "");
  std::vector<Payload> damaged = EncodeRecord(Record(kBias));
  Payload& block = damaged.back();
  block = Payload::CopyOf(block.data(), block.size());
  block.mutable_data()[0] ^= std::byte{1};
  EXPECT_NE(error_of(damaged), "");
}

using ShardDeathTest = testing::Test;

TEST(ShardDeathTest, PushesAreCountedTwiceOver) {
  Shard shard = TinyShard();
  shard.Assign(Initial(kBias, kFirst));
  shard.InstallNext(1);
  ++shard.Find(kBias)->consumed;
  EXPECT_DEATH(shard.CheckAllCounts(), "consumed other pushes");
}

}  // namespace
}  // namespace downpour
