#include "chief/assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chief/folder/checkpoint_store.h"
#include "tests/unit/chief/assignment_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(AssignmentTest, AssignsInitialValuesUntilEverySliceReported) {
  Place();
  ASSERT_THAT(Assigns(), SizeIs(1));
  EXPECT_EQ(Assigns()[0].to, ps->incarnation);
  EXPECT_EQ(Assigns()[0].train_examples, 12u);
  ASSERT_THAT(Assigns()[0].slices, SizeIs(2));
  EXPECT_EQ(Assigns()[0].slices[0].epoch, (SliceEpoch{3, 1}));
  EXPECT_EQ(Assigns()[0].slices[0].source, SliceSource::kInitialValues);
  Tick(100ms);
  EXPECT_THAT(Assigns(), IsEmpty());
  ASSERT_TRUE(Report(SliceId{0}, {}).ok());
  EXPECT_FALSE(assignment.complete());
  Tick(1s);
  ASSERT_THAT(Assigns(), SizeIs(1)) << "the report or the request was lost";
  EXPECT_THAT(Assigns()[0].slices, SizeIs(1));
  ASSERT_TRUE(Report(SliceId{1}, {}).ok());
  EXPECT_TRUE(assignment.complete());
  Tick(1s);
  EXPECT_THAT(Assigns(), IsEmpty());
}

// The parts of a long report take their time; each Assign would be answered by all of them again.
TEST_F(AssignmentTest, WhileReportsComeNothingIsAskedAgain) {
  Place();
  Tick(400ms);
  ASSERT_TRUE(Report(SliceId{0}, {}).ok());
  Tick(400ms);
  EXPECT_THAT(Assigns(), IsEmpty());
  Tick(100ms);
  ASSERT_THAT(Assigns(), SizeIs(1));
  EXPECT_THAT(Assigns()[0].slices, SizeIs(1));
}

TEST_F(AssignmentTest, AReportSaidTwiceCountsOnce) {
  Place();
  ASSERT_TRUE(Report(SliceId{0}, SetOf({0})).ok());
  ASSERT_TRUE(Report(SliceId{0}, SetOf({0})).ok());
  EXPECT_FALSE(assignment.complete());
}

TEST_F(AssignmentTest, TellsWorkersWhereSlicesAre) {
  Place();
  const Placement placement = assignment.ToPlacement(Incarnation{7});
  EXPECT_EQ(placement.to, Incarnation{7});
  EXPECT_EQ(placement.term, 3u);
  EXPECT_EQ(placement.train_examples, 12u);
  ASSERT_THAT(placement.servers, SizeIs(1));
  EXPECT_EQ(placement.servers[0].incarnation, ps->incarnation);
  EXPECT_EQ(placement.servers[0].endpoint, "h1:1");
  ASSERT_THAT(placement.slices, SizeIs(2));
  EXPECT_EQ(placement.slices[1].epoch, (SliceEpoch{3, 1}));
}

TEST_F(AssignmentTest, TellsWorkersWhereAPsIsNow) {
  Place();
  const uint64_t before = assignment.placement_number();
  assignment.Follow(*ps);
  EXPECT_EQ(assignment.placement_number(), before);
  ps->process.endpoint = "h2:1";
  assignment.Follow(*ps);
  const Placement placement = assignment.ToPlacement(Incarnation{7});
  EXPECT_EQ(placement.number, before + 1) << "or no worker would look at it";
  EXPECT_EQ(placement.servers[0].endpoint, "h2:1");
  EXPECT_EQ(placement.slices[1].epoch, (SliceEpoch{3, 1})) << "it holds what it held";
}

TEST_F(AssignmentTest, RestoresRecordsAndTakesTheSlicesWord) {
  Place({PutCheckpoint({1, 2}, {{0, 1, 2}, {0, 2}})});
  ASSERT_THAT(Assigns(), SizeIs(1));
  EXPECT_EQ(Assigns()[0].slices[0].source, SliceSource::kCheckpoint);
  ASSERT_THAT(Restores(), SizeIs(2));
  EXPECT_EQ(Restores()[0].round, (Round{1, 2}));
  EXPECT_EQ(DecodeRecord(Restores()[0].blocks)->finished, SetOf({0, 1, 2}));
  ASSERT_TRUE(Report(SliceId{0}, SetOf({0, 1, 2})).ok());
  ASSERT_TRUE(Report(SliceId{1}, SetOf({0, 2})).ok());
  EXPECT_EQ(assignment.TakeFinished(), SetOf({0, 2}));
  EXPECT_EQ(assignment.leases_begun(), 3u);
  EXPECT_THAT(failures.list(), IsEmpty());
}

TEST_F(AssignmentTest, RecordsAreSentAgainEverMoreRarelyUntilTheyAreReported) {
  const Duration retry = Timing{}.data_retry;
  Place({PutCheckpoint({1, 2}, {{0}, {0}})});
  Tick(retry - 1ms);
  EXPECT_THAT(Restores(), IsEmpty()) << "they may still be on their way";
  Tick(1ms);
  EXPECT_THAT(Restores(), SizeIs(2));
  Tick(2 * retry - 1ms);
  EXPECT_THAT(Restores(), IsEmpty());
  ASSERT_TRUE(Report(SliceId{0}, {}).ok());
  Tick(2 * retry - 1ms);
  EXPECT_THAT(Restores(), IsEmpty()) << "a report came meanwhile";
  Tick(1ms);
  EXPECT_THAT(Restores(), SizeIs(1));
  ASSERT_TRUE(Report(SliceId{1}, {}).ok());
  Tick(60s);
  EXPECT_THAT(Restores(), IsEmpty());
}

TEST_F(AssignmentTest, RecordsThatWentWithALinkAreSentOnTheNextOne) {
  const Duration retry = Timing{}.data_retry;
  Place({PutCheckpoint({1, 2}, {{0}, {0}})});
  Tick(retry);
  ASSERT_TRUE(Report(SliceId{0}, {}).ok());
  assignment.SendAgain(ps->incarnation);
  Tick(20ms);
  EXPECT_THAT(Restores(), SizeIs(1)) << "well before the doubled wait is over";
  Tick(retry - 1ms);
  EXPECT_THAT(Restores(), IsEmpty());
}

TEST_F(AssignmentTest, ARecordWaitsForTheBulkLink) {
  ps->bulk = PeerId::kNone;
  Place({PutCheckpoint({1, 2}, {{0}, {0}})});
  EXPECT_THAT(Restores(), IsEmpty());
  ps->bulk = kBulk;
  Tick(20ms);
  EXPECT_THAT(Restores(), SizeIs(2));
}

TEST_F(AssignmentTest, EveryFlippedByteOfARecordCostsThatSliceAnOlderState) {
  const Manifest older = PutCheckpoint({1, 1}, {{0}, {0}});
  const Manifest newer = PutCheckpoint({1, 2}, {{0, 1}, {0, 1}});
  const std::string file = disk.At(ShardPath({1, 2}, "ps-0.shard"));
  for (size_t i = 0; i < file.size(); i += 7) {
    disk.At(ShardPath({1, 2}, "ps-0.shard"))[i] = static_cast<char>(file[i] ^ 0x10);
    Assignment other(context, storage, members, failures, grid, Timing{});
    other.Place(3, {ps}, 12, {newer, older});
    effects = Settle();
    const uint32_t damaged = i < newer.records[1].offset ? 0 : 1;
    for (const RestoreSlice& restore : Restores()) {
      const bool is_damaged = ToNumber(restore.slice) == damaged;
      EXPECT_EQ(restore.round, is_damaged ? (Round{1, 1}) : (Round{1, 2}));
      EXPECT_EQ(restore.epoch, (SliceEpoch{3, is_damaged ? 2u : 1u}));
    }
    EXPECT_THAT(Restores(), SizeIs(2)) << i;
    EXPECT_THAT(failures.list().back().what, HasSubstr("checkpoints/1-2/ps-0.shard"));
    disk.At(ShardPath({1, 2}, "ps-0.shard")) = file;
  }
}

TEST_F(AssignmentTest, ATruncatedFileCostsTheSlicesBehindItsEndAnOlderState) {
  const Manifest newer = PutCheckpoint({1, 2}, {{0}, {0}});
  disk.At(ShardPath({1, 2}, "ps-0.shard")).resize(newer.records[1].offset + 3);
  Place({newer, PutCheckpoint({1, 1}, {{0}, {0}})});
  EXPECT_THAT(failures.list().back().what, HasSubstr("slice 1 restarts from checkpoint 1-1"));
  ASSERT_THAT(Assigns(), SizeIs(2)) << "at once, not with the next repetition";
}

TEST_F(AssignmentTest, ARecordThatThePsCannotInstallFallsBackToo) {
  Place({PutCheckpoint({1, 2}, {{0, 1}, {0, 1}}), PutCheckpoint({1, 1}, {{0}, {0}})});
  const uint64_t number = assignment.placement_number();
  ASSERT_TRUE(Report(SliceId{0}, {}, "no slots").ok());
  EXPECT_GT(assignment.placement_number(), number);
  ASSERT_THAT(Restores(), SizeIs(1));
  EXPECT_EQ(Restores()[0].round, (Round{1, 1}));
  ASSERT_TRUE(assignment.failure().ok());
  ASSERT_TRUE(Report(SliceId{0}, {}, "no slots there either").ok());
  EXPECT_EQ(MessageOf(assignment.failure()), "no checkpoint's record of slice 0 can be used: no slots");
}

TEST_F(AssignmentTest, APsThatCannotMakeInitialValuesEndsTheJob) {
  Place({});
  ASSERT_TRUE(Report(SliceId{0}, {}, "no memory").ok());
  EXPECT_THAT(MessageOf(assignment.failure()), HasSubstr("ps-0 cannot make slice 0: no memory"));
}

// Protocol rule core 6: any consistent pair may become primary; what the ps still holds spares computing again.
TEST_F(AssignmentTest, APsThatKeptItsSlicesGoesOnWithThem) {
  ps->holds = true;
  Place({PutCheckpoint({1, 2}, {{0}, {0}})});
  ASSERT_THAT(Assigns(), SizeIs(1));
  EXPECT_EQ(Assigns()[0].slices[0].source, SliceSource::kHeld);
  EXPECT_THAT(Restores(), IsEmpty());
  ASSERT_TRUE(Report(SliceId{0}, SetOf({0, 1, 2})).ok());
  ASSERT_TRUE(Report(SliceId{1}, {}, "slice 1 is not held here").ok());
  EXPECT_EQ(assignment.epochs(), (std::vector<SliceEpoch>{{3, 1}, {3, 2}}));
  ASSERT_THAT(Restores(), SizeIs(1));
  EXPECT_EQ(Restores()[0].round, (Round{1, 2})) << "the newest checkpoint is tried next";
  ASSERT_TRUE(Report(SliceId{1}, SetOf({0})).ok());
  EXPECT_EQ(assignment.TakeFinished(), SetOf({0}));
}

// A process that stood still while another one was in its place holds less than is durable since.
TEST_F(AssignmentTest, WhatAPsHeldCountsOnlyIfItHasAllThatTheNewestCheckpointHas) {
  ps->holds = true;
  Manifest newest = PutCheckpoint({1, 2}, {{0, 1}, {0, 1}});
  newest.committed = SetOf({0, 1});
  Place({newest});
  ASSERT_TRUE(Report(SliceId{0}, SetOf({0, 1, 2})).ok());
  ASSERT_TRUE(Report(SliceId{1}, SetOf({0, 2})).ok());
  EXPECT_FALSE(assignment.complete());
  ASSERT_THAT(Restores(), SizeIs(1));
  EXPECT_EQ(Restores()[0].slice, SliceId{1});
  EXPECT_EQ(Restores()[0].round, (Round{1, 2}));
  ASSERT_TRUE(Report(SliceId{1}, SetOf({0, 1})).ok());
  EXPECT_EQ(assignment.TakeFinished(), SetOf({0, 1}));
}

TEST_F(AssignmentTest, AReplacedServersSlicesAreRenewedAndNoOthers) {
  Membership both({.scale_tier = "CUSTOM", .worker_count = 1, .parameter_server_count = 2}, Timing{});
  both.Begin(context.now, 3, 1);
  const auto admit = [&](int32_t index, uint64_t nonce) {
    Join join;
    join.role = TaskRole::kPs;
    join.index = index;
    join.nonce = nonce;
    join.endpoint = "h1:1";
    Task* task = both.Admit(context.now, kControl, join).task;
    task->bulk = kBulk;
    return task;
  };
  Assignment two(context, storage, both, failures, grid, Timing{});
  const auto report = [&](const Task* task, SliceId slice, const IntervalSet& finished) {
    SliceReport said{.from = task->incarnation, .slices = {}};
    said.slices.push_back({slice, two.epochs()[ToNumber(slice)], "", finished});
    EXPECT_TRUE(two.Receive(said).ok());
    effects = Settle();
  };
  const std::vector<Task*> servers = {admit(0, 1), admit(1, 2)};
  two.Place(3, servers, 12, {});
  report(servers[0], two.servers()[0].slices[0], SetOf({0, 1}));
  report(servers[1], two.servers()[1].slices[0], SetOf({0, 1}));
  ASSERT_TRUE(two.complete());
  two.TakeFinished();
  const SliceId kept = two.servers()[0].slices[0], lost = two.servers()[1].slices[0];
  servers[1]->state = TaskState::kLost;
  admit(1, 3);
  two.TakeOver(servers, {PutCheckpoint({3, 1}, {{0}, {0}})});
  effects = Settle();
  EXPECT_FALSE(two.complete());
  EXPECT_EQ(two.epochs()[ToNumber(kept)], (SliceEpoch{3, 1}));
  EXPECT_EQ(two.epochs()[ToNumber(lost)], (SliceEpoch{3, 2}));
  ASSERT_THAT(Restores(), SizeIs(1));
  EXPECT_EQ(Restores()[0].round, (Round{3, 1})) << "a checkpoint of after the first placement";
  report(servers[1], lost, SetOf({0}));
  EXPECT_TRUE(two.complete());
  EXPECT_EQ(two.TakeFinished(), SetOf({0})) << "of those placed again; the others said theirs before";
}

TEST_F(AssignmentTest, AReportOfAnEpochThatIsOverChangesNothing) {
  Place({PutCheckpoint({1, 2}, {{0, 1}, {0, 1}}), PutCheckpoint({1, 1}, {{}, {}})});
  SliceReport late{.from = ps->incarnation, .slices = {}};
  late.slices.push_back({SliceId{0}, assignment.epochs()[0], "", SetOf({0, 1})});
  ASSERT_TRUE(Report(SliceId{0}, {}, "bad").ok());
  ASSERT_TRUE(assignment.Receive(late).ok());
  ASSERT_TRUE(Report(SliceId{1}, SetOf({0, 1})).ok());
  EXPECT_FALSE(assignment.complete());
  ASSERT_TRUE(Report(SliceId{0}, {}).ok());
  ASSERT_TRUE(assignment.complete());
  EXPECT_TRUE(assignment.TakeFinished().empty());
}

TEST_F(AssignmentTest, RefusesReportsThatNoHonestPsMakes) {
  Place();
  SliceReport report{.from = ps->incarnation, .slices = {}};
  report.slices.push_back({SliceId{99}, {3, 1}, "", {}});
  EXPECT_TRUE(absl::IsInvalidArgument(assignment.Receive(report)));
  report.slices[0].slice = SliceId{0};
  report.from = Incarnation{ToNumber(ps->incarnation) + 1};
  EXPECT_TRUE(absl::IsInvalidArgument(assignment.Receive(report)));
  EXPECT_FALSE(assignment.complete());
}

TEST_F(AssignmentTest, ACheckpointOfAnotherGridIsNoSource) {
  Manifest manifest = PutCheckpoint({1, 2}, {{0}, {0}});
  manifest.records.pop_back();
  Place({manifest});
  EXPECT_EQ(Assigns()[0].slices[0].source, SliceSource::kInitialValues);
}

}  // namespace
}  // namespace downpour
