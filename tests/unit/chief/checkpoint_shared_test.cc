// Checkpoint rounds whose files the servers write themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/chief/rounds_fixture.h"

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

TEST_F(SharedCheckpointTest, ARequestIsRepeatedUntilItIsAnswered) {
  PutFiles();
  ASSERT_TRUE(Receive(WrittenOf(0, {1, 1})).ok());
  effects.clear();
  turn.now += 1s;
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
  written.slices.pop_back();
  ASSERT_TRUE(Receive(written).ok());
  EXPECT_FALSE(rounds->active());
  EXPECT_EQ(rounds->last_error(),
            absl::StrCat("ps-1 lacks slice ", ToNumber(Server(1).slices.back()), " in its present epoch"));
  EXPECT_EQ(rounds->last_error_cause(), CheckpointRounds::Cause::kPs);
}

TEST_F(SharedCheckpointTest, RefusesFilesThatNoHonestPsWrites) {
  PutFiles();
  std::vector<ShardWritten> absurd(5, WrittenOf(0, {1, 1}));
  absurd[0].slices.push_back(absurd[0].slices[0]);
  absurd[1].slices[1].slice = absurd[1].slices[0].slice;
  absurd[2].slices[1].offset = 0;
  absurd[3].bytes = 21;
  absurd[4].slices[1].slice = Server(1).slices[0];
  for (const ShardWritten& written : absurd) EXPECT_TRUE(absl::IsInvalidArgument(Receive(written)));
  EXPECT_TRUE(rounds->active());
}

}  // namespace
}  // namespace downpour
