#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/chief/checkpoint_rounds_fixture.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(CheckpointRoundsTest, BringsEverySlicesRecordUnderAManifest) {
  Start({1, 1});
  ASSERT_THAT(Requests(0), SizeIs(1));
  EXPECT_THAT(Requests(0)[0].slices, SizeIs(2));
  EXPECT_EQ(rounds->writing(), "1-1: 0 of 4 slices");
  AnswerAll({1, 1});
  ASSERT_FALSE(rounds->active()) << rounds->last_error();
  ASSERT_TRUE(rounds->durable().has_value());
  EXPECT_EQ(rounds->durable()->bytes, 52u);
  const absl::StatusOr<Manifest> manifest = DecodeManifest(disk.At("checkpoints/1-1/MANIFEST"));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->committed, committed);
  EXPECT_EQ(manifest->data_fingerprint, 7u);
  ASSERT_THAT(manifest->records, SizeIs(4));
  for (const Manifest::Record& record : manifest->records) {
    const std::string file = disk.At(ShardPath({1, 1}, manifest->files[record.file].name));
    EXPECT_EQ(file.substr(record.offset, record.bytes), "0123456789abc");
    EXPECT_EQ(record.crc32c, Crc32c(Payload::CopyOf("0123456789abc", 13).bytes()));
  }
  const auto is_durable = [](const Effect& effect) {
    const auto* trace = std::get_if<TraceRecord>(&effect);
    return trace != nullptr && trace->kind == TraceRecord::Kind::kDurable && trace->count == ((uint64_t{1} << 32) | 1);
  };
  EXPECT_EQ(std::count_if(effects.begin(), effects.end(), is_durable), 1);
}

TEST_F(CheckpointRoundsTest, RecordsThatSkippedTooManyPushesMakeNoCheckpoint) {
  Start({1, 1}, /*urgent=*/false, /*most_skipped=*/5);
  AnswerAll({1, 1});
  ASSERT_TRUE(rounds->durable().has_value());
  for (const uint64_t of_one : {uint64_t{2}, UINT64_MAX / 3}) {
    const Round round{1, of_one == 2 ? 2u : 3u};
    Start(round, /*urgent=*/false, /*most_skipped=*/5);
    for (size_t server = 0; server < 2; ++server) {
      for (const SliceId slice : Server(server).slices) {
        SliceRecord record = RecordOf(server, slice, round);
        record.skipped = of_one;
        EXPECT_TRUE(Receive(record).ok());
        EXPECT_TRUE(Receive(record).ok()) << "a copy counts once";
      }
    }
    EXPECT_FALSE(rounds->active());
    EXPECT_EQ(rounds->too_many_skipped(), of_one == 2 ? 8 : UINT64_MAX);
    EXPECT_EQ(rounds->durable()->round, (Round{1, 1}));
    EXPECT_FALSE(disk.Has(ManifestPath(round)));
  }
}

TEST_F(CheckpointRoundsTest, TheManifestComesAfterAllElseIsSynced) {
  std::vector<std::string> ops;
  disk.fate = [&](const StorageOp& op) {
    static const char* const kKinds[] = {"mkdir",  "write",  "append", "sync", "syncdir",
                                         "rename", "remove", "read",   "list"};
    ops.push_back(absl::StrCat(kKinds[static_cast<int>(op.kind)], " ", op.path));
    return absl::OkStatus();
  };
  Start({1, 1});
  AnswerAll({1, 1});
  const std::string dir = "checkpoints/1-1";
  const auto first_sync = std::find(ops.begin(), ops.end(), "sync " + dir + "/ps-0.shard");
  ASSERT_NE(first_sync, ops.end());
  EXPECT_EQ(std::count(ops.begin(), first_sync, "append " + dir + "/ps-0.shard"), 2);
  EXPECT_EQ(std::count(ops.begin(), first_sync, "append " + dir + "/ps-1.shard"), 2);
  EXPECT_THAT(std::vector<std::string>(first_sync, ops.end()),
              ElementsAre("sync " + dir + "/ps-0.shard", "sync " + dir + "/ps-1.shard", "syncdir " + dir,
                          "remove " + dir + "/MANIFEST.tmp", "write " + dir + "/MANIFEST.tmp",
                          "sync " + dir + "/MANIFEST.tmp", "rename " + dir + "/MANIFEST.tmp", "syncdir " + dir));
  EXPECT_EQ(ops[1], "syncdir checkpoints");
}

// Whatever operation fails, the round is given up, the older checkpoint stays, and the next round can succeed.
TEST_F(CheckpointRoundsTest, AFailureAtAnyStepLeavesTheOldOne) {
  Start({1, 1});
  AnswerAll({1, 1});
  ASSERT_TRUE(rounds->durable().has_value());
  for (uint32_t failing = 1;; ++failing) {
    uint32_t op_number = 0;
    bool failed = false;
    disk.fate = [&](const StorageOp&) {
      failed |= ++op_number == failing;
      return op_number == failing ? absl::ResourceExhaustedError("no space left on device") : absl::OkStatus();
    };
    const Round round{1, 1 + failing};
    Start(round);
    AnswerAll(round);
    disk.fate = nullptr;
    if (!failed || rounds->durable()->round == round) break;  // all steps up to the commit were tried
    EXPECT_TRUE(!rounds->active() && rounds->failed());
    EXPECT_THAT(rounds->last_error(), HasSubstr("no space left on device"));
    EXPECT_EQ(rounds->last_error_cause(), CheckpointRounds::Cause::kDisk);
    EXPECT_EQ(rounds->durable()->round, (Round{1, 1}));
    EXPECT_TRUE(DecodeManifest(disk.At("checkpoints/1-1/MANIFEST")).ok());
    EXPECT_FALSE(disk.Has("checkpoints/1-1/MANIFEST.tmp"));
    EXPECT_THAT(failures.list().back().what, HasSubstr(ToString(round)));
    ASSERT_LT(failing, 50u);
  }
  EXPECT_GT(failures.list().size(), 10u);
  EXPECT_EQ(rounds->last_error(), "") << "a good round ends the complaint";
  EXPECT_TRUE(!rounds->last_error_cause() && !rounds->failed());
}

// Records come faster than the disk takes them: appends to one file never overtake each other.
TEST_F(CheckpointRoundsTest, OneAppendAtATimeGoesIntoAFile) {
  Start({1, 1});
  std::vector<StorageOp> appends;
  for (const SliceId slice : Server(0).slices) {
    ASSERT_TRUE(rounds->Receive(RecordOf(0, slice, {1, 1})).ok());
    for (const Effect& effect : context.out.Take()) {
      if (const auto* op = std::get_if<StorageOp>(&effect)) appends.push_back(*op);
    }
  }
  ASSERT_THAT(appends, SizeIs(1));
  storage.Complete(disk.Carry(appends[0]));
  Settle();
  EXPECT_EQ(disk.At("checkpoints/1-1/ps-0.shard").size(), 26u);
}

TEST_F(CheckpointRoundsTest, WhatEndsAfterItsRoundChangesNothing) {
  Start({1, 1});
  ASSERT_TRUE(rounds->Receive(RecordOf(0, Server(0).slices[0], {1, 1})).ok());
  const StorageOp late = std::get<StorageOp>(context.out.Take()[0]);
  rounds->Stop();
  Settle();
  Start({1, 2});
  StorageDone done = disk.Carry(late);
  done.status = absl::ResourceExhaustedError("no space left on device");
  storage.Complete(done);
  EXPECT_TRUE(rounds->active()) << "the failure was of the round before";
  AnswerAll({1, 2});
  EXPECT_EQ(rounds->durable()->round, (Round{1, 2}));
}

TEST_F(CheckpointRoundsTest, ALostRequestOrRecordIsAskedForAgain) {
  Start({1, 1});
  const std::vector<SliceId> slices = Server(0).slices;
  ASSERT_TRUE(Receive(RecordOf(0, slices[0], {1, 1})).ok());
  effects.clear();
  Tick(Timing{}.data_retry);
  ASSERT_THAT(Requests(0), SizeIs(1));
  ASSERT_THAT(Requests(0)[0].slices, SizeIs(1));
  EXPECT_EQ(Requests(0)[0].slices[0].slice, slices[1]);
  EXPECT_EQ(Requests(0)[0].slices[0].epoch, (SliceEpoch{1, 1}));
}

TEST_F(CheckpointRoundsTest, RecordsThatAreOnlyLateAreAskedForEverMoreRarely) {
  Start({1, 1});
  const std::vector<SliceId> slices = Server(0).slices;
  Tick(Timing{}.data_retry - 1ms);
  EXPECT_THAT(Requests(0), IsEmpty());
  ASSERT_TRUE(Receive(RecordOf(0, slices[0], {1, 1})).ok());
  Tick(Timing{}.data_retry - 1ms);
  EXPECT_THAT(Requests(0), IsEmpty()) << "one came meanwhile";
  Tick(1ms);
  EXPECT_THAT(Requests(0), SizeIs(1));
  Tick(2 * Timing{}.data_retry - 1ms);
  EXPECT_THAT(Requests(0), IsEmpty());
  Tick(1ms);
  EXPECT_THAT(Requests(0), SizeIs(1));
}

TEST_F(CheckpointRoundsTest, RecordsThatWentWithALinkAreAskedForOnTheNextOne) {
  Start({1, 1});
  Tick(Timing{}.data_retry);
  rounds->AskAgain(Server(0).incarnation);
  Tick(20ms);
  ASSERT_THAT(Requests(0), SizeIs(1)) << "well before the doubled wait is over";
  EXPECT_THAT(Requests(0)[0].slices, SizeIs(2));
  EXPECT_THAT(Requests(1), IsEmpty());
}

TEST_F(CheckpointRoundsTest, ABulkLinkThatOpensLateIsUsedAtOnce) {
  Task* ps = members.FindAlive(Server(0).incarnation);
  context.now += 1s;
  ps->bulk = PeerId::kNone;
  Start({1, 1});
  ps->bulk = Bulk(0);
  Tick(20ms);
  ASSERT_THAT(Requests(0), SizeIs(1));
  EXPECT_THAT(Requests(0)[0].slices, SizeIs(2));
}

// Six slices per ps: more than may be in flight.
class ManySlicesTest : public CheckpointRoundsTest {
 protected:
  ManySlicesTest()
      : CheckpointRoundsTest(
            "[{dense: {units: 3}}, {dense: {units: 3}}, {dense: {units: 3}}, {dense: {units: 3}}, "
            "{dense: {units: 3}}, {dense: {units: 3}}]") {}
};

TEST_F(ManySlicesTest, WhatComesDuringAnAppendGoesInTheNextOneTogether) {
  Start({1, 1});
  for (size_t i = 0; i < 4; ++i) ASSERT_TRUE(rounds->Receive(RecordOf(0, Server(0).slices[i], {1, 1})).ok());
  storage.Complete(disk.Carry(std::get<StorageOp>(context.out.Take()[0])));
  storage.Complete(disk.Carry(std::get<StorageOp>(context.out.Take().back())));
  EXPECT_EQ(disk.At("checkpoints/1-1/ps-0.shard").size(), 4 * 13u);
}

TEST_F(ManySlicesTest, InCalmEachRecordIsAskedForOnce) {
  Start({1, 1});
  ASSERT_THAT(Requests(0), SizeIs(1));
  EXPECT_THAT(Requests(0)[0].slices, SizeIs(CheckpointRounds::kRecordsInFlight));
  AnswerAll({1, 1});
  EXPECT_TRUE(rounds->durable().has_value());
  for (size_t server = 0; server < 2; ++server) {
    std::vector<SliceId> asked;
    for (const SnapshotRequest& request : Requests(server)) {
      for (const SnapshotRequest::Item& item : request.slices) asked.push_back(item.slice);
    }
    EXPECT_EQ(asked, Server(server).slices);
  }
}

TEST_F(CheckpointRoundsTest, ARecordSaidTwiceIsWrittenOnce) {
  Start({1, 1});
  ASSERT_TRUE(Receive(RecordOf(0, Server(0).slices[0], {1, 1})).ok());
  ASSERT_TRUE(Receive(RecordOf(0, Server(0).slices[0], {1, 1})).ok());
  EXPECT_EQ(disk.At("checkpoints/1-1/ps-0.shard").size(), 13u);
}

// Protocol hole A5: an answer to another round is never taken for one to this.
TEST_F(CheckpointRoundsTest, RecordsOfAnotherRoundAreLate) {
  Start({1, 2});
  EXPECT_TRUE(Receive(RecordOf(0, Server(0).slices[0], {1, 1})).ok());
  EXPECT_FALSE(disk.Has("checkpoints/1-2/ps-0.shard"));
}

// It is the same process, and its slices keep their epochs.
TEST_F(CheckpointRoundsTest, ARoundContinuesWhenAPsHasAnotherAddress) {
  Start({1, 1});
  ASSERT_TRUE(Receive(RecordOf(0, Server(0).slices[0], {1, 1})).ok());
  Task moved = *members.Alive(TaskRole::kPs)[1];
  moved.process.endpoint = "elsewhere:1";
  const uint64_t before = placement.number();
  assignment.Follow(moved);
  ASSERT_GT(placement.number(), before) << "workers are told";
  AnswerAll({1, 1});
  EXPECT_TRUE(rounds->durable().has_value()) << rounds->last_error();
}

TEST_F(CheckpointRoundsTest, AStopOrALostPsDropsARoundUnlessItsManifestIsBeingWritten) {  // A4
  for (const bool stops : {true, false}) {
    const auto drop = [&] { stops ? rounds->Stop() : rounds->LoseAPs(); };
    const uint32_t n = stops ? 1 : 3;
    Start({1, n});
    ASSERT_TRUE(Receive(RecordOf(0, Server(0).slices[0], {1, n})).ok());
    drop();
    EXPECT_TRUE(Receive(RecordOf(1, Server(1).slices[0], {1, n})).ok()) << "it is late";
    EXPECT_FALSE(rounds->active());
    EXPECT_EQ(rounds->last_error(), stops ? "" : "a ps is gone");
    EXPECT_FALSE(disk.Has(ShardPath({1, n}, "ps-0.shard")));

    Start({1, n + 1});
    disk.fate = [&](const StorageOp& op) {
      if (op.kind == StorageOp::Kind::kRename) drop();
      return absl::OkStatus();
    };
    AnswerAll({1, n + 1});
    disk.fate = nullptr;
    ASSERT_TRUE(rounds->durable().has_value());
    EXPECT_EQ(rounds->durable()->round, (Round{1, n + 1}));
    EXPECT_TRUE(disk.Has(ManifestPath({1, n + 1})));
  }
}

TEST_F(CheckpointRoundsTest, AManifestPromisesOnlyWhatEveryRecordHas) {  // A4
  Start({1, 1});
  for (const auto& [server, lacks] : {std::pair(0, 2), std::pair(1, 0)}) {
    SliceRecord record = RecordOf(server, Server(server).slices[0], {1, 1});
    record.finished = LeasesBut(lacks);
    EXPECT_TRUE(Receive(record).ok());
    EXPECT_EQ(rounds->TakeLacking().Intervals(), LeasesOf(lacks).Intervals());
    EXPECT_TRUE(rounds->TakeLacking().empty());
  }
  AnswerAll({1, 1});
  ASSERT_TRUE(rounds->durable().has_value()) << rounds->last_error();
  EXPECT_EQ(DecodeManifest(disk.At(ManifestPath({1, 1})))->committed, LeasesOf(1));
}

TEST_F(CheckpointRoundsTest, RefusesRecordsThatNoHonestPsSends) {
  Start({1, 1});
  const SliceId others = Server(1).slices[0];
  EXPECT_TRUE(absl::IsInvalidArgument(Receive(RecordOf(0, others, {1, 1}))));
  SliceRecord record = RecordOf(0, Server(0).slices[0], {1, 1});
  record.blocks.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(Receive(record)));
  record.blocks.assign(5, Payload::Zeros(1 << 20));
  EXPECT_TRUE(absl::IsInvalidArgument(Receive(record)));
  record = RecordOf(0, Server(0).slices[0], {1, 1});
  record.from = Incarnation{77};
  EXPECT_TRUE(absl::IsInvalidArgument(Receive(record)));
  record = RecordOf(0, Server(0).slices[0], {1, 1});
  record.epoch = {1, 9};
  EXPECT_TRUE(absl::IsInvalidArgument(Receive(record)));
  EXPECT_FALSE(disk.Has("checkpoints/1-1/ps-0.shard"));
  EXPECT_TRUE(absl::IsInvalidArgument(Receive(WrittenOf(0, {1, 1})))) << "via chief";
  AnswerAll({1, 1});
  EXPECT_FALSE(rounds->active());
  EXPECT_TRUE(rounds->durable().has_value());
}

TEST_F(CheckpointRoundsTest, APsThatSendsNothingEndsTheRound) {
  Start({1, 1});
  for (Time end = context.now + 14s; context.now < end; context.now += 500ms) rounds->Tick();
  EXPECT_TRUE(rounds->active());
  EXPECT_THAT(rounds->Waits(), SizeIs(2));
  context.now += 1s;
  rounds->Tick();
  EXPECT_FALSE(rounds->active());
  EXPECT_THAT(rounds->last_error(), HasSubstr("ps-0"));
}

TEST_F(CheckpointRoundsTest, OldOnesGoOnlyAfterTheNewOneIsDurable) {
  CheckpointSpec spec;
  spec.keep = 1;
  MakeRounds(spec);
  Start({1, 1});
  AnswerAll({1, 1});
  disk.fate = [&](const StorageOp& op) {
    if (op.kind == StorageOp::Kind::kRemove && op.path == ManifestPath({1, 1})) {
      EXPECT_TRUE(disk.Has(ManifestPath({1, 2})));
    }
    return absl::OkStatus();
  };
  Start({1, 2});
  EXPECT_TRUE(disk.Has(ManifestPath({1, 1})));
  AnswerAll({1, 2});
  EXPECT_FALSE(disk.Has(ManifestPath({1, 1})));
  EXPECT_TRUE(disk.Has(ManifestPath({1, 2})));
}

// As in a round of an hour, in which a record is lost now and then.
class LongRoundTest : public CheckpointRoundsTest {
 protected:
  LongRoundTest() : CheckpointRoundsTest("[{dense: {units: 4096}}, {dense: {units: 4096}}]") {}
};

TEST_F(LongRoundTest, ALossNowAndThenIsNoSilence) {
  Start({1, 1});
  ASSERT_GT(Server(0).slices.size(), 20u);
  for (const SliceId slice : Server(1).slices) ASSERT_TRUE(Receive(RecordOf(1, slice, {1, 1})).ok());
  std::vector<SliceId> asked;
  const auto note = [&] {
    for (const SnapshotRequest& request : Requests(0)) {
      for (const auto& item : request.slices) asked.push_back(item.slice);
    }
    effects.clear();
  };
  note();
  for (size_t loss = 0; loss < 5; ++loss) {
    ASSERT_FALSE(asked.empty());
    for (int record = 0; record < 3; ++record) {  // these come soon one after the other
      const SliceId slice = asked.front();
      asked.erase(asked.begin());
      context.now += 10ms;
      ASSERT_TRUE(Receive(RecordOf(0, slice, {1, 1})).ok());
      note();
    }
    asked.clear();  // all that was on its way is lost
    while (asked.empty()) {
      Tick(100ms);
      note();
      ASSERT_TRUE(rounds->active()) << rounds->last_error() << " after loss " << loss;
    }
  }
}

TEST_F(CheckpointRoundsTest, AManifestThatNobodyWouldReadIsNotWritten) {
  rounds->Start({1, 1}, {std::string(kMaxManifestBytes, 'j'), {12, 10, 7}, committed}, /*urgent=*/false);
  effects = Settle();
  AnswerAll({1, 1});
  EXPECT_FALSE(rounds->active());
  EXPECT_FALSE(rounds->durable().has_value());
  EXPECT_THAT(rounds->last_error(), HasSubstr("its manifest takes "));
  EXPECT_FALSE(disk.Has(ManifestPath({1, 1})));
}

}  // namespace
}  // namespace downpour
