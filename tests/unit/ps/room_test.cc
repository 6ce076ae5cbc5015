// What a hostile worker can make of a slice's counters: they stay small enough for a record, and honest work goes on.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "job/job_file.h"
#include "ps/ps_role.h"
#include "ps/shard.h"
#include "schema/codec.h"
#include "tests/scenario/tiny_job.h"

namespace downpour {
namespace {

// A ps with the slices of the tiny job, in which there are many leases.
class RoomTest : public ::testing::Test {
 protected:
  static constexpr PeerId kChief{1};
  static constexpr PeerId kHostile{uint64_t{1} << 32};
  static constexpr PeerId kHonest{(uint64_t{1} << 32) + 1};
  static constexpr Incarnation kMe{10};
  static constexpr uint64_t kRun = 77;
  static constexpr uint64_t kLeases = 180000;
  static constexpr uint64_t kMost = LeaseCounters::kMostOutOfOrder;
  static constexpr uint64_t kTaken = LeaseCounters::kAlwaysTaken;

  explicit RoomTest(int64_t lease_batches = 2) {
    JobSpec job = TinyJob();
    job.training.lease_batches = lease_batches;
    job.training.epochs = static_cast<int64_t>(kLeases * lease_batches / kTinyExamples);
    Step(Started{0, "ps-0"});
    Step(Received{kChief, Welcome{kMe, 1, "ps-0", CanonicalJob(job), kRun}});
    Step(Received{kChief, Assign{kMe, kTinyExamples, {{kBias, {1, 1}, SliceSource::kInitialValues}}}, kRun});
    Step(Tick{});
  }
  std::vector<Effect> Step(Input input) {
    Effects effects;
    role_.Step(Time(1s), std::move(input), effects);
    return effects.Take();
  }
  PushReply::Item Push(uint64_t lease, downpour::Step step, PeerId from = kHostile) {
    downpour::Push push{.from = Incarnation{5}, .lease = LeaseId{lease}, .step = step, .slices = {}};
    push.slices.push_back({kBias, {1, 1}, {}, Payload()});
    for (const Effect& effect : Step(Received{from, std::move(push), kRun})) {
      const auto* send = std::get_if<Send>(&effect);
      if (send != nullptr && send->to == from) return std::get<PushReply>(send->message).slices.at(0);
    }
    ADD_FAILURE() << "no answer";
    return {};
  }
  // What a checkpoint would hold, or why it could not.
  absl::StatusOr<SliceState> Record() {
    SliceState state = StateOf(kBias, *role_.Find(kBias));
    state.values = Payload::Zeros(kMaxFrameBytes);  // the largest slice
    const std::vector<Payload> blocks = EncodeRecord(state);
    if (absl::Status size = CheckRecordSize(blocks); !size.ok()) return size;
    return DecodeRecord(blocks);
  }

  PsRole role_{PsOptions()};
};

TEST_F(RoomTest, WhoBeginsEveryLeaseFillsNoRecordAndKeepsNobodyOut) {
  uint64_t taken = 0;
  for (uint64_t lease = kLeases - 100000; lease < kLeases; ++lease) taken += Push(lease, 1).consumed;
  EXPECT_EQ(taken, kMost);
  const PushReply::Item refused = Push(kLeases - 1, 1);
  EXPECT_EQ(refused.refusal, SliceRefusal::kNotHere) << "not for good: its sender asks again";
  EXPECT_TRUE(Record().ok()) << Record().status();

  EXPECT_EQ(Push(kLeases - 100000, 2, kHonest).consumed, 2u) << "what is begun goes on, whoever began it";
  for (uint64_t lease = 0; lease < kTaken; ++lease) ASSERT_EQ(Push(lease, 1, kHonest).consumed, 1u) << lease;
  EXPECT_EQ(Push(kTaken, 1, kHonest).refusal, SliceRefusal::kNotHere);
  EXPECT_TRUE(Record().ok()) << Record().status();
  EXPECT_EQ(Push(0, 2, kHonest).consumed, 2u);
  EXPECT_EQ(Push(kTaken, 1, kHonest).consumed, 1u) << "the first that the slice lacks are others now";
}

TEST_F(RoomTest, ARefusedLeaseIsNotCounted) {
  for (uint64_t lease = kLeases - kMost; lease < kLeases; ++lease) Push(lease, 1);
  const ServedSlice& slice = *role_.Find(kBias);
  const uint64_t consumed = slice.consumed;
  Push(kTaken, 1);
  EXPECT_EQ(slice.consumed, consumed);
  EXPECT_EQ(slice.counters.ConsumedTo(LeaseId{kTaken}, 2), 0u);
  EXPECT_EQ(role_.stats().pushes_refused, 1u);
}

// The counters travel with the slice: as if nothing had happened between.
TEST_F(RoomTest, WhatASliceTakesItTakesWhereItIsRestored) {
  JobSpec job = TinyJob();
  job.training.epochs = 60000;
  const Plan plan(job, kTinyExamples);
  IntervalSet finished;
  finished.InsertRange(0, 10);
  finished.InsertRange(20, 30);
  finished.InsertRange(kTaken + 20, kTaken + 25);
  std::vector<LeaseCounter> open;
  for (uint64_t lease = plan.total_leases() - kMost; lease < plan.total_leases(); ++lease) {
    open.push_back({LeaseId{lease}, 1});
  }
  absl::StatusOr<LeaseCounters> counters = LeaseCounters::Restore(finished, open, plan);
  ASSERT_TRUE(counters.ok()) << counters.status();
  using Verdict = LeaseCounters::Verdict;
  EXPECT_EQ(counters->Classify(LeaseId{kTaken + 19}, 1), Verdict::kNext);
  EXPECT_EQ(counters->Classify(LeaseId{kTaken + 25}, 1), Verdict::kNoRoom);
  EXPECT_EQ(counters->Classify(LeaseId{kTaken + 25}, 2), Verdict::kGap);
  for (const downpour::Step step : {1, 2, 3}) counters->Consume(LeaseId{15}, step, 3);
  EXPECT_EQ(counters->Classify(LeaseId{kTaken + 25}, 1), Verdict::kNext);
  EXPECT_EQ(counters->Classify(LeaseId{kTaken + 26}, 1), Verdict::kNoRoom);
}

// Leases of one step are never open: every other one of them leaves an interval.
class IntervalRoomTest : public RoomTest {
 protected:
  IntervalRoomTest() : RoomTest(/*lease_batches=*/1) {}
};

TEST_F(IntervalRoomTest, WhoFinishesEveryOtherLeaseFillsNoRecordAndKeepsNobodyOut) {
  uint64_t taken = 0;
  for (uint64_t lease = 1; lease < kLeases; lease += 2) taken += Push(lease, 1).consumed;
  EXPECT_EQ(taken, kMost);
  EXPECT_TRUE(Record().ok()) << Record().status();
  for (uint64_t lease = 0; lease < 2 * kMost; lease += 2) ASSERT_EQ(Push(lease, 1, kHonest).consumed, 1u) << lease;
  EXPECT_EQ(role_.Find(kBias)->counters.finished().IntervalCount(), 1u);
}

}  // namespace
}  // namespace downpour
