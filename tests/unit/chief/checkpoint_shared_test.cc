// Checkpoint rounds whose files the servers write themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/chief/checkpoint_rounds_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SharedCheckpointTest : public CheckpointRoundsTest {
 protected:
  SharedCheckpointTest() {
    CheckpointSpec spec;
    spec.via = CheckpointVia::kShared;
    MakeRounds(spec);
    Start({1, 1});
  }
  void PutFiles(size_t bytes = 20) {
    for (const char* file : {"ps-0.shard", "ps-1.shard"}) disk.Put(ShardPath({1, 1}, file), std::string(bytes, 'x'));
  }
};

TEST_F(SharedCheckpointTest, EachPsWritesItsOwnFile) {
  const auto requests = SentOf<WriteShard>(effects, Control(1));
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_EQ(requests[0].file, "ps-1.shard");
  EXPECT_EQ(requests[0].to, Server(1).incarnation);
  EXPECT_THAT(requests[0].slices, SizeIs(2));
  EXPECT_FALSE(requests[0].urgent);
  PutFiles();
  ASSERT_TRUE(Receive(WrittenOf(0, {1, 1})).ok());
  ASSERT_TRUE(Receive(WrittenOf(0, {1, 1})).ok());
  EXPECT_TRUE(rounds->active());
  ASSERT_TRUE(Receive(WrittenOf(1, {1, 1})).ok());
  ASSERT_FALSE(rounds->active()) << rounds->last_error();
  const absl::StatusOr<Manifest> manifest = DecodeManifest(disk.At("checkpoints/1-1/MANIFEST"));
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->records[0].crc32c, 99u);
}

TEST_F(SharedCheckpointTest, RecordsThatSkippedTooManyPushesMakeNoCheckpoint) {
  rounds->Stop();
  Start({1, 2}, /*urgent=*/false, /*most_skipped=*/5);
  for (size_t server = 0; server < 2; ++server) {
    ShardWritten written = WrittenOf(server, {1, 2});
    disk.Put(ShardPath({1, 2}, Server(server).name + ".shard"), std::string(20, 'x'));
    written.skipped = 3;
    ASSERT_TRUE(Receive(written).ok());
  }
  EXPECT_FALSE(rounds->active());
  EXPECT_EQ(rounds->too_many_skipped(), 6u);
  EXPECT_FALSE(disk.Has(ManifestPath({1, 2})));
}

TEST_F(SharedCheckpointTest, AManifestPromisesOnlyWhatEveryRecordHas) {
  PutFiles();
  ShardWritten written = WrittenOf(0, {1, 1});
  written.slices[0].finished = LeasesBut(0);
  written.slices[1].finished = LeasesBut(2);
  ASSERT_TRUE(Receive(written).ok());
  EXPECT_EQ(rounds->TakeLacking(), LeasesBut(1));
  ASSERT_TRUE(Receive(WrittenOf(1, {1, 1})).ok());
  EXPECT_TRUE(rounds->TakeLacking().empty());
  ASSERT_TRUE(rounds->durable().has_value()) << rounds->last_error();
  EXPECT_EQ(DecodeManifest(disk.At(ManifestPath({1, 1})))->committed, LeasesOf(1));
}

TEST_F(SharedCheckpointTest, ARequestIsRepeatedUntilItIsAnswered) {
  PutFiles();
  ASSERT_TRUE(Receive(WrittenOf(0, {1, 1})).ok());
  effects.clear();
  context.now += 1s;
  rounds->Tick();
  effects = Settle();
  EXPECT_THAT(SentOf<WriteShard>(effects, Control(0)), IsEmpty());
  EXPECT_THAT(SentOf<WriteShard>(effects, Control(1)), SizeIs(1));
}

TEST_F(SharedCheckpointTest, EachPsIsToldThatARoundIsUrgent) {
  rounds->Stop();
  Start({1, 2}, /*urgent=*/true);
  for (size_t server = 0; server < 2; ++server) {
    const auto requests = SentOf<WriteShard>(effects, Control(server));
    ASSERT_THAT(requests, SizeIs(1));
    EXPECT_TRUE(requests[0].urgent);
  }
}

TEST_F(SharedCheckpointTest, AFileThatIsNotHereMakesNoCheckpoint) {
  ASSERT_TRUE(Receive(WrittenOf(0, {1, 1})).ok());
  EXPECT_FALSE(rounds->active());
  EXPECT_THAT(rounds->last_error(), HasSubstr("ps-0.shard"));
}

TEST_F(SharedCheckpointTest, AFileOfAnotherLengthMakesNoCheckpoint) {
  PutFiles(21);
  ASSERT_TRUE(Receive(WrittenOf(0, {1, 1})).ok());
  EXPECT_FALSE(rounds->active());
  EXPECT_THAT(rounds->last_error(), HasSubstr("via: shared"));
}

TEST_F(SharedCheckpointTest, APsThatCannotWriteEndsTheRound) {
  ASSERT_TRUE(Receive(ShardWritten{Server(1).incarnation, {1, 1}, "no space left", 0, {}}).ok());
  EXPECT_FALSE(rounds->active());
  EXPECT_THAT(rounds->last_error(), HasSubstr("ps-1 cannot write its shard file: no space left"));
  EXPECT_EQ(rounds->last_error_cause(), CheckpointRounds::Cause::kDisk);
}

TEST_F(SharedCheckpointTest, APsThatLacksASliceEndsTheRoundAndNoDiskIsBlamed) {
  PutFiles();
  ShardWritten written = WrittenOf(1, {1, 1});
  written.slices.back().bytes = 0;
  ASSERT_TRUE(Receive(written).ok());
  EXPECT_FALSE(rounds->active());
  EXPECT_EQ(rounds->last_error(),
            absl::StrCat("ps-1 lacks slice ", ToNumber(Server(1).slices.back()), " in its present epoch"));
  EXPECT_EQ(rounds->last_error_cause(), CheckpointRounds::Cause::kPs);
}

// The slices of each server, one to a part.
std::vector<ShardWritten> PartsOf(const ShardWritten& whole) {
  std::vector<ShardWritten> parts;
  for (const ShardWritten::Item& item : whole.slices) {
    parts.push_back(whole);
    parts.back().slices = {item};
  }
  return parts;
}

TEST_F(SharedCheckpointTest, AReportMayComeInPartsInAnyOrderAndTwice) {
  PutFiles();
  for (size_t server = 0; server < 2; ++server) {
    const std::vector<ShardWritten> parts = PartsOf(WrittenOf(server, {1, 1}));
    for (const size_t part : {1, 1, 0, 0}) {
      EXPECT_TRUE(rounds->active());
      ASSERT_TRUE(Receive(parts.at(part)).ok());
      if (server == 1 && part == 0) break;
    }
  }
  ASSERT_FALSE(rounds->active()) << rounds->last_error();
  const absl::StatusOr<Manifest> manifest = DecodeManifest(disk.At("checkpoints/1-1/MANIFEST"));
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->records.size(), 4u);
}

TEST_F(SharedCheckpointTest, OnlyWhatIsLackingIsAskedForAgainAndNotWhilePartsCome) {
  const std::vector<ShardWritten> parts = PartsOf(WrittenOf(0, {1, 1}));
  Tick(400ms);
  ASSERT_TRUE(Receive(parts[0]).ok());
  Tick(400ms);
  EXPECT_THAT(SentOf<WriteShard>(effects, Control(0)), IsEmpty());
  Tick(100ms);
  const auto again = SentOf<WriteShard>(effects, Control(0));
  ASSERT_THAT(again, SizeIs(1));
  ASSERT_THAT(again[0].slices, SizeIs(1));
  EXPECT_EQ(again[0].slices[0].slice, parts[1].slices[0].slice);
}

// Nobody knows how long a file may take: without this nothing would end the round of a ps that lives.
TEST_F(SharedCheckpointTest, AnAnswerThatIsRejectedEndsTheRound) {
  for (uint32_t n = 2; n < 8; ++n) {
    rounds->Stop();
    const Round round{1, n};
    Start(round);
    ShardWritten absurd = WrittenOf(0, round);
    if (n == 2) absurd.slices[1].slice = absurd.slices[0].slice;
    if (n == 3) absurd.slices[1].offset = 0;
    if (n == 4) absurd.bytes = 21;
    if (n == 5) absurd.slices[1].slice = Server(1).slices[0];
    if (n == 7) absurd.slices[1].epoch = {1, 9};
    if (n == 6) {
      ASSERT_TRUE(Receive(PartsOf(absurd)[0]).ok());
      absurd.bytes = 30;
    }
    EXPECT_TRUE(absl::IsInvalidArgument(Receive(absurd))) << n;
    EXPECT_FALSE(rounds->active()) << n;
    EXPECT_THAT(rounds->last_error(), HasSubstr("ps-0 said what was rejected")) << n;
    EXPECT_EQ(rounds->last_error_cause(), CheckpointRounds::Cause::kPs);
  }
}

TEST_F(SharedCheckpointTest, WordsThatAreNoMessageEndTheRoundThatWaitsForTheirSpeaker) {
  PutFiles();
  rounds->Rejected(Incarnation{99}, "damaged");
  EXPECT_TRUE(rounds->active()) << "nobody waits for that one";
  ASSERT_TRUE(Receive(WrittenOf(0, {1, 1})).ok());
  rounds->Rejected(Server(0).incarnation, "damaged");
  EXPECT_TRUE(rounds->active()) << "its report is here";
  rounds->Rejected(Server(1).incarnation, "ShardWritten: finished has 600000 elements, of at most 131072");
  EXPECT_FALSE(rounds->active());
  EXPECT_THAT(rounds->last_error(), HasSubstr("ps-1 said what was rejected, perhaps its report: ShardWritten: fin"));
}

}  // namespace
}  // namespace downpour
