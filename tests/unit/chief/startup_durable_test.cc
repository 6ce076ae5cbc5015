// What of a start is on disk before what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "schema/checkpoint_format.h"
#include "tests/unit/chief/startup_fixture.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;

// Whoever finds nothing but a term may rely on it that no chief spoke in it.
TEST_F(StartupTest, AChiefIsReadyOnlyWithTermNameAndJournalOnDisk) {
  std::vector<std::string> kept;
  disk.fate = [&](const StorageOp& op) {
    if (op.kind == StorageOp::Kind::kRename) kept.push_back(op.target);
    if (op.kind == StorageOp::Kind::kSyncDir) kept.push_back("synced");
    return absl::OkStatus();
  };
  Run();
  EXPECT_THAT(kept, ElementsAre("term.a", "synced", "term.b", "synced", "chief.json", "synced", "journal.a", "synced",
                                "journal.b", "synced"));
}

// Its chief may have died between the rename of its manifest and the sync of that, and then the power fails.
TEST_F(StartupTest, TheNewestCheckpointIsOnDiskBeforeTheJournalNamesIt) {
  Run();
  PutCheckpoint({1, 1});
  std::vector<std::string> kept;
  disk.fate = [&](const StorageOp& op) {
    if (op.kind == StorageOp::Kind::kRename && op.target == "journal.a") kept.push_back(op.target);
    if (op.kind == StorageOp::Kind::kSyncDir && op.path.starts_with("checkpoints")) kept.push_back(op.path);
    return absl::OkStatus();
  };
  ASSERT_EQ(Run().why, "");
  EXPECT_THAT(kept, ElementsAre(CheckpointDir({1, 1}), "checkpoints", "journal.a"));
}

}  // namespace
}  // namespace downpour
