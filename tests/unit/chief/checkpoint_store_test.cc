#include "chief/checkpoint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/chief/parts_fixture.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CheckpointStoreTest : public PartsFixture {
 protected:
  void Put(Round folder, Round written) {
    Manifest manifest;
    manifest.round = written;
    disk.Put(ManifestPath(folder), EncodeManifest(manifest));
    disk.Put(ShardPath(folder, "ps-0.shard"), "records");
  }
  void Put(Round round) { Put(round, round); }
  void Load() {
    absl::Status status = absl::UnknownError("not loaded");
    store.Load([&](const absl::Status& end) { status = end; });
    Settle();
    ASSERT_TRUE(status.ok()) << status;
  }
  absl::Status Prune(Round round, int64_t keep) {
    absl::Status status;
    store.Prune(round, keep, [&](const absl::Status& end) { status = end; });
    Settle();
    return status;
  }
  CheckpointStore store{storage};
};

TEST_F(CheckpointStoreTest, ReadsThemAllAndTrustsNoName) {
  Put({1, 2});
  Put({1, 10});
  Put({1, 11}, {1, 9});  // a copy under another name
  disk.Put("checkpoints/1-12/MANIFEST", "{}");
  disk.Put("checkpoints/1-13/ps-0.shard", "of a round that never became durable");
  disk.Put("checkpoints/notes/readme", "not ours");
  disk.Put("checkpoints/file", "not ours");
  Load();
  ASSERT_THAT(store.valid(), SizeIs(2));
  EXPECT_EQ(store.valid()[0].round, (Round{1, 10}));
  EXPECT_EQ(store.valid()[1].round, (Round{1, 2}));
  ASSERT_THAT(store.damaged(), SizeIs(2));
  EXPECT_EQ(store.damaged()[0].round, (Round{1, 12}));
  EXPECT_EQ(store.damaged()[1].round, (Round{1, 11}));
}

TEST_F(CheckpointStoreTest, AnUnreadableManifestIsDamagedAndNamed) {
  Put({1, 1});
  Put({1, 2});
  disk.fate = [](const StorageOp& op) {
    return op.path == "checkpoints/1-2/MANIFEST" ? absl::DataLossError("input/output error") : absl::OkStatus();
  };
  Load();
  EXPECT_THAT(store.valid(), SizeIs(1));
  ASSERT_THAT(store.damaged(), SizeIs(1));
  EXPECT_THAT(store.damaged()[0].why, ::testing::HasSubstr("1-2/MANIFEST"));
}

TEST_F(CheckpointStoreTest, AManifestThatCannotBeReadAtAllMayBeWholeAndFailsTheLoad) {
  Put({1, 1});
  Put({1, 2});
  disk.fate = [](const StorageOp& op) {
    return op.path == ManifestPath({1, 2}) ? absl::PermissionDeniedError(op.path + ": permission denied")
                                           : absl::OkStatus();
  };
  absl::Status status;
  store.Load([&](const absl::Status& end) { status = end; });
  Settle();
  EXPECT_TRUE(absl::IsPermissionDenied(status));
  EXPECT_THAT(Words(status), ::testing::HasSubstr("checkpoints/1-2/MANIFEST"));
}

TEST_F(CheckpointStoreTest, KeepsTheNewestAndWhatItCannotRead) {
  for (uint32_t n = 1; n <= 3; ++n) Put({1, n});
  disk.Put("checkpoints/1-4/MANIFEST", "junk");
  disk.Put("checkpoints/1-5/ps-0.shard", "abandoned");
  Load();
  Put({2, 1});
  ASSERT_TRUE(Prune({2, 1}, 2).ok());
  EXPECT_THAT(disk.Paths(),
              ElementsAre("checkpoints/1-3/MANIFEST", "checkpoints/1-3/ps-0.shard", "checkpoints/1-4/MANIFEST",
                          "checkpoints/2-1/MANIFEST", "checkpoints/2-1/ps-0.shard"));
  Put({2, 2});
  ASSERT_TRUE(Prune({2, 2}, 2).ok());
  EXPECT_FALSE(disk.Has("checkpoints/1-3/MANIFEST"));
}

// A crash between the two removals must not leave a manifest whose files are gone.
TEST_F(CheckpointStoreTest, TheManifestGoesFirst) {
  Put({1, 1});
  Load();
  store.Prune({2, 1}, 1, [](const absl::Status&) {});
  const std::vector<Effect> effects = turn.out.Take();
  ASSERT_THAT(effects, SizeIs(1));
  EXPECT_EQ(std::get<StorageOp>(effects[0]).path, "checkpoints/1-1/MANIFEST");
}

TEST_F(CheckpointStoreTest, APruneThatFailsIsTold) {
  Put({1, 1});
  Load();
  disk.fate = [](const StorageOp& op) {
    return op.kind == StorageOp::Kind::kRemove ? absl::PermissionDeniedError("no") : absl::OkStatus();
  };
  EXPECT_FALSE(Prune({2, 1}, 1).ok());
}

TEST_F(CheckpointStoreTest, AFolderThatCannotBeListedIsAnError) {
  disk.fate = [](const StorageOp& op) {
    return op.kind == StorageOp::Kind::kList ? absl::PermissionDeniedError("no") : absl::OkStatus();
  };
  absl::Status status;
  store.Load([&](const absl::Status& end) { status = end; });
  Settle();
  EXPECT_TRUE(absl::IsPermissionDenied(status));
}

TEST_F(CheckpointStoreTest, DiscardTakesTheWholeFolderAndTheManifestFirst) {
  Put({1, 1});
  Put({1, 2});
  std::vector<std::string> removed;
  disk.fate = [&](const StorageOp& op) { return removed.push_back(op.path), absl::OkStatus(); };
  store.Discard({1, 2});
  Settle();
  EXPECT_THAT(disk.Paths(), SizeIs(2));
  EXPECT_THAT(removed, ElementsAre("checkpoints/1-2/MANIFEST", "checkpoints/1-2", "checkpoints/1-2"))
      << "the second of them syncs";
}

}  // namespace
}  // namespace downpour
