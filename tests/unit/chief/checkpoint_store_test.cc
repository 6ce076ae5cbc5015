#include "chief/folder/checkpoint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include "tests/unit/chief/parts_fixture.h"

namespace downpour {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

class CheckpointStoreTest : public PartsFixture {
 protected:
  void Put(Round folder, Round written, int64_t unix_ms = 0) {
    Manifest manifest;
    manifest.round = written;
    manifest.unix_ms = unix_ms;
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
    store.Prune(round, 0, {.keep = keep}, [&](const absl::Status& end) { status = end; });
    Settle();
    return status;
  }
  // Rounds so many seconds apart become durable, each pruned as the job says; how old, in seconds, those are that stay.
  std::vector<int64_t> AgesAfter(int rounds, int64_t apart, int64_t keep) {
    for (int i = 1; i <= rounds; ++i) {
      const Round round{1, ++newest_};
      times_[newest_] = unix_ms_ += 1000 * apart;
      Put(round, round, unix_ms_);
      store.Prune(round, unix_ms_, {.keep = keep, .apart = std::chrono::minutes(1)}, [](const absl::Status&) {});
      Settle();
    }
    std::vector<int64_t> ages;
    for (const auto& [n, written] : times_) {
      if (disk.Has(ManifestPath({1, n}))) ages.push_back((unix_ms_ - written) / 1000);
    }
    return ages;
  }
  uint32_t newest_ = 0;
  int64_t unix_ms_ = 1700000000000;
  std::map<uint32_t, int64_t> times_;
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
  for (const absl::Status& why : {absl::DataLossError("input/output error"), absl::InvalidArgumentError("a folder")}) {
    disk.fate = [&](const StorageOp& op) { return op.path == "checkpoints/1-2/MANIFEST" ? why : absl::OkStatus(); };
    Load();
    EXPECT_THAT(store.valid(), SizeIs(1));
    ASSERT_THAT(store.damaged(), SizeIs(1));
    EXPECT_THAT(store.damaged()[0].why, ::testing::HasSubstr("1-2/MANIFEST"));
  }
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
  EXPECT_THAT(MessageOf(status), ::testing::HasSubstr("checkpoints/1-2/MANIFEST"));
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

TEST_F(CheckpointStoreTest, OneThatIsPinnedStaysBesideTheNewestUntilItIsPinnedNoMore) {
  const auto pin = [this](std::set<Round> rounds) {
    store.Pin(std::move(rounds), [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
    Settle();
  };
  for (uint32_t n = 1; n <= 4; ++n) {
    Put({1, n});
    if (n == 2) pin({{1, 1}});
    ASSERT_TRUE(Prune({1, n}, 2).ok());
  }
  EXPECT_THAT(store.valid(), SizeIs(0)) << "as it was loaded";
  EXPECT_TRUE(disk.Has("checkpoints/1-1/MANIFEST"));
  EXPECT_FALSE(disk.Has("checkpoints/1-2/MANIFEST"));
  EXPECT_TRUE(disk.Has("checkpoints/1-3/MANIFEST")) << "what is pinned is none of the newest two";
  pin({{1, 3}});
  EXPECT_FALSE(disk.Has("checkpoints/1-1/MANIFEST"));
  EXPECT_TRUE(disk.Has("checkpoints/1-3/MANIFEST"));
  pin({});
  EXPECT_TRUE(disk.Has("checkpoints/1-3/MANIFEST")) << "it is one of the newest two";
}

// Were rounds a second apart and only the newest kept, what spoiled one would soon have spoiled them all.
TEST_F(CheckpointStoreTest, BehindTheNewestTwoThoseStayThatAreApart) {
  EXPECT_THAT(AgesAfter(2, 1, 3), ElementsAre(1, 0));
  EXPECT_THAT(AgesAfter(20, 1, 3), ElementsAre(21, 1, 0)) << "the first one is not yet a minute old";
  EXPECT_THAT(AgesAfter(600, 1, 5), ElementsAre(AllOf(Ge(120), Le(181)), AllOf(Ge(60), Le(121)), Le(61), 1, 0));
  EXPECT_THAT(AgesAfter(5, 90, 3), ElementsAre(180, 90, 0));
  EXPECT_THAT(AgesAfter(100, 1, 2), ElementsAre(1, 0));
  EXPECT_THAT(AgesAfter(3, 1, 1), ElementsAre(0));
}

TEST_F(CheckpointStoreTest, ACalendarThatIsSetBackOrGoneMadKeepsNoMoreAndNoLess) {
  AgesAfter(10, 30, 4);
  unix_ms_ -= 86400000;
  EXPECT_THAT(AgesAfter(10, 30, 4), SizeIs(4));
  unix_ms_ = std::numeric_limits<int64_t>::min();
  EXPECT_THAT(AgesAfter(1, 0, 4), SizeIs(4));
  unix_ms_ = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(AgesAfter(3, 0, 4), SizeIs(4));
}

TEST_F(CheckpointStoreTest, ThoseOfBeforeCountAndAJobThatKeepsFewerNowRemovesThem) {
  AgesAfter(600, 1, 9);
  CheckpointStore next{storage};
  next.Load([](const absl::Status&) {});
  Settle();
  ASSERT_THAT(next.valid(), SizeIs(9));
  Put({2, 1}, {2, 1}, unix_ms_ + 1000);
  next.Prune({2, 1}, unix_ms_ + 1000, {.keep = 4, .apart = std::chrono::minutes(1)}, [](const absl::Status&) {});
  Settle();
  next.Load([](const absl::Status&) {});
  Settle();
  ASSERT_THAT(next.valid(), SizeIs(4));
  EXPECT_EQ(next.valid()[0].round, (Round{2, 1}));
  EXPECT_EQ(next.valid()[1].round, (Round{1, 600}));
}

// A crash between the two removals must not leave a manifest whose files are gone.
TEST_F(CheckpointStoreTest, TheManifestGoesFirst) {
  Put({1, 1});
  Load();
  store.Prune({2, 1}, 0, {.keep = 1}, [](const absl::Status&) {});
  const std::vector<Effect> effects = context.out.Take();
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

TEST_F(CheckpointStoreTest, WhatIsGoneAlreadyNeedsNoRemovingAndKeepsNothingElse) {
  for (uint32_t n = 1; n <= 3; ++n) Put({1, n});
  disk.Put("checkpoints/1-4/ps-0.shard", "abandoned");
  Load();
  disk.fate = [](const StorageOp& op) {
    return op.path == CheckpointDir({1, 4}) ? absl::NotFoundError("no such folder") : absl::OkStatus();
  };
  EXPECT_TRUE(Prune({2, 1}, 1).ok());
  for (uint32_t n = 1; n <= 3; ++n) EXPECT_FALSE(disk.Has(ManifestPath({1, n}))) << n;
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
