// Records of checkpoints that cannot be read for a while, for good, or in time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chief/slice_restore.h"
#include "tests/unit/chief/slice_restore_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A disk that is not mounted, or not ours to read, says nothing about what is on it: that may pass.
TEST_F(SliceRestoreTest, ARecordThatCannotBeReadIsTriedAgainEverMoreRarely) {
  const Manifest newer = PutCheckpoint({1, 2}, {{0, 1}, {0, 1}});
  Hide();
  Place({newer});
  for (int i = 0; i < 10; ++i) Tick(900ms);
  EXPECT_EQ(reads, 2 * 4) << "at once, after 1, 2 and 4 s";
  disk.fate = nullptr;
  Tick(Timing{}.dead_after);
  EXPECT_THAT(Restores(), SizeIs(2));
  EXPECT_EQ(placement.epochs()[0], (SliceEpoch{3, 1})) << "it cost no state";
  EXPECT_THAT(failures.list().front().what, HasSubstr("checkpoints/1-2/ps-0.shard: the record at byte 0"));
  EXPECT_THAT(failures.list().front().what, HasSubstr("permission denied; it is tried again"));
  EXPECT_THAT(failures.list(), SizeIs(1)) << "one line for all records of a file";
}

TEST_F(SliceRestoreTest, ARecordThatStaysUnreadableCostsItsSliceAnOlderState) {
  FallBack();
  ASSERT_THAT(Restores(), SizeIs(2));
  EXPECT_EQ(Restores()[0].round, (Round{1, 1}));
  EXPECT_EQ(reads, 2 * SliceRestore::kReads);
  EXPECT_TRUE(restore.failure().ok());
}

// The disk that hid it then may be back: each replacement gives it the same time.
TEST_F(SliceRestoreTest, ARecordThatStayedUnreadableIsTriedAgainForTheNextProcess) {
  const auto [older, newer] = FallBack();
  for (const Slice& slice : grid.slices) ASSERT_TRUE(Report(slice.id, SetOf({0})).ok());
  ps->state = TaskState::kLost;
  Join next;
  next.role = TaskRole::kPs;
  next.nonce = 2;
  next.endpoint = "h1:1";
  ps = members.Admit(context.now, kControl, next).task;
  ps->bulk = kBulk;
  assignment.TakeOver({ps}, {newer, older});
  effects = Settle();
  EXPECT_THAT(Restores(), IsEmpty()) << "its first read failed, and nothing older is taken for that";
  disk.fate = nullptr;
  Tick(Timing{}.dead_after);
  ASSERT_THAT(Restores(), SizeIs(2));
  EXPECT_EQ(Restores()[0].round, (Round{1, 2}));
}

TEST_F(SliceRestoreTest, IfNoRecordCanBeReadItNamesTheNewest) {
  const Manifest older = PutCheckpoint({1, 1}, {{0}, {0}});
  const Manifest newer = PutCheckpoint({1, 2}, {{0, 1}, {0, 1}});
  disk.At(ShardPath({1, 1}, "ps-0.shard"))[5] ^= 1;  // the older one is damaged, the newer may be whole
  Hide();
  Place({newer, older});
  for (int i = 0; i < SliceRestore::kReads; ++i) Tick(Timing{}.dead_after);
  EXPECT_TRUE(absl::IsDataLoss(restore.failure()));
  EXPECT_THAT(MessageOf(restore.failure()), HasSubstr("record of slice 0 can be used: checkpoints/1-2/ps-0.shard"));
  EXPECT_THAT(MessageOf(restore.failure()), HasSubstr("permission denied"));
}

TEST_F(SliceRestoreTest, AReadThatEndsAfterItsEpochIsIgnored) {
  assignment.Place(3, {ps}, 12, {{PutCheckpoint({1, 2}, {{0, 1}, {0, 1}}), PutCheckpoint({1, 1}, {{0}, {0}})}, "", {}});
  std::vector<Effect> reads = context.out.Take();
  SliceReport report{.from = ps->incarnation, .slices = {}};
  report.slices.push_back({SliceId{0}, placement.epochs()[0], "bad", {}});
  ASSERT_TRUE(restore.Receive(report).ok());
  for (const Effect& effect : reads) {
    if (const auto* op = std::get_if<StorageOp>(&effect)) storage.Complete(disk.Carry(*op));
  }
  effects = Settle();
  ASSERT_THAT(Restores(), SizeIs(2));
  for (const RestoreSlice& r : Restores()) {
    EXPECT_EQ(r.round, ToNumber(r.slice) == 0 ? (Round{1, 1}) : (Round{1, 2}));
    EXPECT_EQ(DecodeRecord(r.blocks)->finished, ToNumber(r.slice) == 0 ? SetOf({0}) : SetOf({0, 1}));
  }
}

}  // namespace
}  // namespace downpour
