#include "chief/folder/storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/chief/parts_fixture.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using StorageTest = PartsFixture;

TEST_F(StorageTest, ASequenceWaitsForEachOperation) {
  storage.Run({MakeDir("a"), WriteFile("a/b", "text"), SyncFile("a/b")}, [](const StorageDone&) {});
  const std::vector<Effect> first = context.out.Take();
  ASSERT_EQ(first.size(), 1u);
  const auto& op = std::get<StorageOp>(first[0]);
  EXPECT_EQ(op.kind, StorageOp::Kind::kMakeDir);
  storage.Complete({op.ticket, absl::OkStatus(), {}, {}});
  const std::vector<Effect> second = context.out.Take();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(std::get<StorageOp>(second[0]).kind, StorageOp::Kind::kWrite);
}

TEST_F(StorageTest, AFailureEndsTheSequenceAndNamesThePath) {
  disk.fate = [](const StorageOp& op) {
    return op.kind == StorageOp::Kind::kSync ? absl::ResourceExhaustedError("no space left") : absl::OkStatus();
  };
  std::vector<absl::Status> ends;
  storage.Run({WriteFile("b", "text"), SyncFile("b"), Rename("b", "c")},
              [&](const StorageDone& done) { ends.push_back(done.status); });
  Settle();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(ends[0]));
  EXPECT_EQ(MessageOf(ends[0]), "b: no space left");
  EXPECT_FALSE(disk.Has("c"));
}

TEST_F(StorageTest, APathIsNotNamedTwice) {
  std::string why;
  storage.Run({ReadFile("gone", 0, 1)}, [&](const StorageDone& done) { why = MessageOf(done.status); });
  Settle();
  EXPECT_EQ(why, "gone: no such file");
}

TEST_F(StorageTest, SequencesDoNotMixUpTheirEnds) {
  disk.Put("a", "1");
  disk.Put("b", "2");
  std::vector<std::string> read;
  for (const char* path : {"a", "b"}) {
    storage.Run({ReadFile(path, 0, 10)}, [&](const StorageDone& done) { read.push_back(ToString(done.data)); });
  }
  std::vector<Effect> ops = context.out.Take();
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) storage.Complete(disk.Carry(std::get<StorageOp>(*op)));
  EXPECT_THAT(read, ElementsAre("2", "1"));
}

TEST_F(StorageTest, ACompletionIsTakenOnce) {
  int ends = 0;
  storage.Run({MakeDir("a")}, [&](const StorageDone&) { ++ends; });
  const StorageDone done{std::get<StorageOp>(context.out.Take()[0]).ticket, absl::OkStatus(), {}, {}};
  storage.Complete(done);
  storage.Complete(done);
  storage.Complete({Ticket{99}, absl::OkStatus(), {}, {}});
  EXPECT_EQ(ends, 1);
}

TEST_F(StorageTest, AFileIsReplacedAsAWholeOrNotAtAll) {
  disk.Put("f", "old");
  disk.Put("f.tmp", "left by a crash");
  storage.Run(ReplaceFile("f", "new"), [](const StorageDone& done) { EXPECT_TRUE(done.status.ok()); });
  Settle();
  EXPECT_EQ(disk.At("f"), "new");

  for (const auto kind : {StorageOp::Kind::kWrite, StorageOp::Kind::kSync, StorageOp::Kind::kRename}) {
    disk.fate = [kind](const StorageOp& op) {
      return op.kind == kind ? absl::DataLossError("input/output error") : absl::OkStatus();
    };
    bool failed = false;
    storage.Run(ReplaceFile("f", "newer"), [&](const StorageDone& done) { failed = !done.status.ok(); });
    Settle();
    EXPECT_TRUE(failed);
    EXPECT_EQ(disk.At("f"), "new");
  }
}

}  // namespace
}  // namespace downpour
