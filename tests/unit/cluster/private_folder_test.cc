#include "cluster/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

class PrivateFolderTest : public testing::Test {
 protected:
  PrivateFolderTest() { setenv("TMPDIR", parent_.path().c_str(), 1); }
  ~PrivateFolderTest() override { unsetenv("TMPDIR"); }
  ScratchFolder parent_;
};

TEST_F(PrivateFolderTest, IsThisUsersAloneAndGoesWithItsObject) {
  std::string path;
  {
    const PrivateFolder folder = PrivateFolder::Make().value();
    path = folder.path();
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(PrivateFolderTest, WhereNoneCanBeMadeTheReasonAndTheRemedyAreTold) {
  const std::string file = parent_.Write("file", "");
  for (const std::string& named : {file, parent_.path() + "/none"}) {
    setenv("TMPDIR", named.c_str(), 1);
    const std::string said(PrivateFolder::Make().status().message());
    EXPECT_THAT(said, testing::HasSubstr("cannot use the folder for temporary files, " + named + ": "));
    EXPECT_THAT(said, testing::HasSubstr("Let TMPDIR name a folder where you may write"));
  }
}

TEST_F(PrivateFolderTest, WhatAKilledProcessLeftIsRemovedAndNothingElse) {
  const PrivateFolder in_use = PrivateFolder::Make().value();
  parent_.Write("downpour-run-killed/lock", "");
  parent_.Write("downpour-run-killed/ps-0", "");
  parent_.Write("downpour-run-being-made/ps-0", "");
  parent_.Write("others/lock", "");
  const PrivateFolder next = PrivateFolder::Make().value();
  EXPECT_FALSE(fs::exists(parent_.path() + "/downpour-run-killed"));
  for (const std::string& path :
       {in_use.path(), next.path(), parent_.path() + "/others", parent_.path() + "/downpour-run-being-made"}) {
    EXPECT_TRUE(fs::exists(path)) << path;
  }
}

// Each looks for those of killed processes while the others make theirs.
TEST_F(PrivateFolderTest, OneThatIsBeingMadeIsNoOthersToRemove) {
  std::atomic<int> lost = 0;
  std::vector<std::thread> makers;
  for (int maker = 0; maker < 8; ++maker) {
    makers.emplace_back([&lost] {
      for (int i = 0; i < 200; ++i) {
        const absl::StatusOr<PrivateFolder> folder = PrivateFolder::Make();
        std::this_thread::yield();
        lost += !folder.ok() || !fs::exists(folder->path() + "/lock");
      }
    });
  }
  for (std::thread& maker : makers) maker.join();
  EXPECT_EQ(lost, 0);
}

}  // namespace
}  // namespace downpour
