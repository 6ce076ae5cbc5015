#include "chief/slice_restore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chief/folder/checkpoint_store.h"
#include "tests/unit/chief/slice_restore_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(SliceRestoreTest, AssignsInitialValuesUntilEverySliceReported) {
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
  EXPECT_FALSE(restore.complete());
  Tick(1s);
  ASSERT_THAT(Assigns(), SizeIs(1)) << "the report or the request was lost";
  EXPECT_THAT(Assigns()[0].slices, SizeIs(1));
  ASSERT_TRUE(Report(SliceId{1}, {}).ok());
  EXPECT_TRUE(restore.complete());
  Tick(1s);
  EXPECT_THAT(Assigns(), IsEmpty());
}

// The parts of a long report take their time; each Assign would be answered by all of them again.
TEST_F(SliceRestoreTest, WhileReportsComeNothingIsAskedAgain) {
  Place();
  Tick(400ms);
  ASSERT_TRUE(Report(SliceId{0}, {}).ok());
  Tick(400ms);
  EXPECT_THAT(Assigns(), IsEmpty());
  Tick(100ms);
  ASSERT_THAT(Assigns(), SizeIs(1));
  EXPECT_THAT(Assigns()[0].slices, SizeIs(1));
}

TEST_F(SliceRestoreTest, AReportSaidTwiceCountsOnce) {
  Place();
  ASSERT_TRUE(Report(SliceId{0}, SetOf({0})).ok());
  ASSERT_TRUE(Report(SliceId{0}, SetOf({0})).ok());
  EXPECT_FALSE(restore.complete());
}

TEST_F(SliceRestoreTest, RestoresRecordsAndTakesTheSlicesWord) {
  Place({PutCheckpoint({1, 2}, {{0, 1, 2}, {0, 2}})});
  ASSERT_THAT(Assigns(), SizeIs(1));
  EXPECT_EQ(Assigns()[0].slices[0].source, SliceSource::kCheckpoint);
  ASSERT_THAT(Restores(), SizeIs(2));
  EXPECT_EQ(Restores()[0].round, (Round{1, 2}));
  EXPECT_EQ(DecodeRecord(Restores()[0].blocks)->finished, SetOf({0, 1, 2}));
  ASSERT_TRUE(Report(SliceId{0}, SetOf({0, 1, 2})).ok());
  ASSERT_TRUE(Report(SliceId{1}, SetOf({0, 2})).ok());
  EXPECT_EQ(restore.TakeFinished(), SetOf({0, 2}));
  EXPECT_EQ(restore.leases_begun(), 3u);
  EXPECT_THAT(failures.list(), IsEmpty());
}

TEST_F(SliceRestoreTest, RecordsAreSentAgainEverMoreRarelyUntilTheyAreReported) {
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

TEST_F(SliceRestoreTest, RecordsThatWentWithALinkAreSentOnTheNextOne) {
  const Duration retry = Timing{}.data_retry;
  Place({PutCheckpoint({1, 2}, {{0}, {0}})});
  Tick(retry);
  ASSERT_TRUE(Report(SliceId{0}, {}).ok());
  restore.SendAgain(ps->incarnation);
  Tick(20ms);
  EXPECT_THAT(Restores(), SizeIs(1)) << "well before the doubled wait is over";
  Tick(retry - 1ms);
  EXPECT_THAT(Restores(), IsEmpty());
}

TEST_F(SliceRestoreTest, ARecordWaitsForTheBulkLink) {
  ps->bulk = PeerId::kNone;
  Place({PutCheckpoint({1, 2}, {{0}, {0}})});
  EXPECT_THAT(Restores(), IsEmpty());
  ps->bulk = kBulk;
  Tick(20ms);
  EXPECT_THAT(Restores(), SizeIs(2));
}

TEST_F(SliceRestoreTest, EveryFlippedByteOfARecordCostsThatSliceAnOlderState) {
  const Manifest older = PutCheckpoint({1, 1}, {{0}, {0}});
  const Manifest newer = PutCheckpoint({1, 2}, {{0, 1}, {0, 1}});
  const std::string file = disk.At(ShardPath({1, 2}, "ps-0.shard"));
  for (size_t i = 0; i < file.size(); i += 7) {
    disk.At(ShardPath({1, 2}, "ps-0.shard"))[i] = static_cast<char>(file[i] ^ 0x10);
    SlicePlacement where{grid};
    SliceRestore whence(context, storage, members, failures, where, Timing{});
    Assignment(context, where, whence).Place(3, {ps}, 12, {{newer, older}, "", {}});
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

TEST_F(SliceRestoreTest, ATruncatedFileCostsTheSlicesBehindItsEndAnOlderState) {
  const Manifest newer = PutCheckpoint({1, 2}, {{0}, {0}});
  disk.At(ShardPath({1, 2}, "ps-0.shard")).resize(newer.records[1].offset + 3);
  Place({newer, PutCheckpoint({1, 1}, {{0}, {0}})});
  EXPECT_THAT(failures.list().back().what, HasSubstr("slice 1 restarts from checkpoint 1-1"));
  ASSERT_THAT(Assigns(), SizeIs(2)) << "at once, not with the next repetition";
}

TEST_F(SliceRestoreTest, ARecordThatThePsCannotInstallFallsBackToo) {
  Place({PutCheckpoint({1, 2}, {{0, 1}, {0, 1}}), PutCheckpoint({1, 1}, {{0}, {0}})});
  const uint64_t number = placement.number();
  ASSERT_TRUE(Report(SliceId{0}, {}, "no slots").ok());
  EXPECT_GT(placement.number(), number);
  ASSERT_THAT(Restores(), SizeIs(1));
  EXPECT_EQ(Restores()[0].round, (Round{1, 1}));
  ASSERT_TRUE(restore.failure().ok());
  ASSERT_TRUE(Report(SliceId{0}, {}, "no slots there either").ok());
  EXPECT_EQ(MessageOf(restore.failure()), "no checkpoint's record of slice 0 can be used: no slots");
}

TEST_F(SliceRestoreTest, APsThatCannotMakeInitialValuesEndsTheJob) {
  Place({});
  ASSERT_TRUE(Report(SliceId{0}, {}, "no memory").ok());
  EXPECT_THAT(MessageOf(restore.failure()), HasSubstr("ps-0 cannot make slice 0: no memory"));
}

// Protocol rule core 6: any consistent pair may become primary; what the ps still holds spares computing again.
TEST_F(SliceRestoreTest, APsThatKeptItsSlicesGoesOnWithThem) {
  ps->holds = true;
  Place({PutCheckpoint({1, 2}, {{0}, {0}})});
  ASSERT_THAT(Assigns(), SizeIs(1));
  EXPECT_EQ(Assigns()[0].slices[0].source, SliceSource::kHeld);
  EXPECT_THAT(Restores(), IsEmpty());
  ASSERT_TRUE(Report(SliceId{0}, SetOf({0, 1, 2})).ok());
  ASSERT_TRUE(Report(SliceId{1}, {}, "slice 1 is not held here").ok());
  EXPECT_EQ(placement.epochs(), (std::vector<SliceEpoch>{{3, 1}, {3, 2}}));
  ASSERT_THAT(Restores(), SizeIs(1));
  EXPECT_EQ(Restores()[0].round, (Round{1, 2})) << "the newest checkpoint is tried next";
  ASSERT_TRUE(Report(SliceId{1}, SetOf({0})).ok());
  EXPECT_EQ(restore.TakeFinished(), SetOf({0}));
}

// A process that stood still while another one was in its place holds less than is durable since.
TEST_F(SliceRestoreTest, WhatAPsHeldCountsOnlyIfItHasAllThatTheNewestCheckpointHas) {
  ps->holds = true;
  Manifest newest = PutCheckpoint({1, 2}, {{0, 1}, {0, 1}});
  newest.committed = SetOf({0, 1});
  Place({newest});
  ASSERT_TRUE(Report(SliceId{0}, SetOf({0, 1, 2})).ok());
  ASSERT_TRUE(Report(SliceId{1}, SetOf({0, 2})).ok());
  EXPECT_FALSE(restore.complete());
  ASSERT_THAT(Restores(), SizeIs(1));
  EXPECT_EQ(Restores()[0].slice, SliceId{1});
  EXPECT_EQ(Restores()[0].round, (Round{1, 2}));
  ASSERT_TRUE(Report(SliceId{1}, SetOf({0, 1})).ok());
  EXPECT_EQ(restore.TakeFinished(), SetOf({0, 1}));
}

// A slice may leave a ps that lives: what that one says of it counts no more, and the others are not asked again.
TEST_F(SliceRestoreTest, ASliceThatMovesGetsItsStateAtItsNewPs) {
  Place({PutCheckpoint({1, 2}, {{0, 1}, {0, 1}})});
  for (const uint32_t slice : {0u, 1u}) ASSERT_TRUE(Report(SliceId{slice}, SetOf({0, 1, 2})).ok());
  ASSERT_TRUE(restore.complete());
  EXPECT_EQ(restore.TakeFinished(), SetOf({0, 1, 2}));
  const ServerId from = placement.ServerOf(SliceId{1}), to{1, Incarnation{99}};
  placement.Add(to, "ps-1", "h2:1");
  restore.Learn({PutCheckpoint({1, 3}, {{0, 1}, {0, 1}})});
  placement.Move(SliceId{1}, to);
  restore.Begin(SliceId{1}, SliceRestore::From::kRecord);
  EXPECT_FALSE(restore.complete());
  EXPECT_EQ(restore.MissingOf(from).slices, 0u);
  EXPECT_EQ(restore.MissingOf(to).slices, 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(Report(SliceId{1}, SetOf({0, 1, 2})))) << "the ps that it left";
  SliceReport report{.from = to.incarnation, .slices = {}};
  report.slices.push_back({SliceId{1}, placement.EpochOf(SliceId{1}), "", SetOf({0, 1})});
  ASSERT_TRUE(restore.Receive(report).ok());
  EXPECT_TRUE(restore.complete());
  EXPECT_EQ(restore.TakeFinished(), SetOf({0, 1})) << "what the slice lacks is open again";
}

TEST_F(SliceRestoreTest, AReportOfAnEpochThatIsOverChangesNothing) {
  Place({PutCheckpoint({1, 2}, {{0, 1}, {0, 1}}), PutCheckpoint({1, 1}, {{}, {}})});
  SliceReport late{.from = ps->incarnation, .slices = {}};
  late.slices.push_back({SliceId{0}, placement.epochs()[0], "", SetOf({0, 1})});
  ASSERT_TRUE(Report(SliceId{0}, {}, "bad").ok());
  ASSERT_TRUE(restore.Receive(late).ok());
  ASSERT_TRUE(Report(SliceId{1}, SetOf({0, 1})).ok());
  EXPECT_FALSE(restore.complete());
  ASSERT_TRUE(Report(SliceId{0}, {}).ok());
  ASSERT_TRUE(restore.complete());
  EXPECT_TRUE(restore.TakeFinished().empty());
}

TEST_F(SliceRestoreTest, RefusesReportsThatNoHonestPsMakes) {
  Place();
  SliceReport report{.from = ps->incarnation, .slices = {}};
  report.slices.push_back({SliceId{99}, {3, 1}, "", {}});
  EXPECT_TRUE(absl::IsInvalidArgument(restore.Receive(report)));
  report.slices[0].slice = SliceId{0};
  report.from = Incarnation{ToNumber(ps->incarnation) + 1};
  EXPECT_TRUE(absl::IsInvalidArgument(restore.Receive(report)));
  EXPECT_FALSE(restore.complete());
}

TEST_F(SliceRestoreTest, ACheckpointOfAnotherGridIsNoSource) {
  Manifest manifest = PutCheckpoint({1, 2}, {{0}, {0}});
  manifest.records.pop_back();
  Place({manifest});
  EXPECT_EQ(Assigns()[0].slices[0].source, SliceSource::kInitialValues);
}

}  // namespace
}  // namespace downpour
