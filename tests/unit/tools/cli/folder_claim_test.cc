// The job folder that a run holds while nobody knows yet whether there will be a job in it.
#include "tools/cli/folder_claim.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cluster/job_folder.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

TEST(FolderClaimTest, HoldsItAndSaysWhatIsDone) {
  const ScratchFolder folder;
  FolderClaim claim;
  ASSERT_TRUE(claim.Take(folder.path()).ok());
  EXPECT_TRUE(claim.Take(folder.path()).ok()) << "it is held here";
  EXPECT_TRUE(HasRun(folder.path()));
  EXPECT_EQ(FolderClaim().Take(folder.path()).code(), absl::StatusCode::kAlreadyExists);
  claim.Say("one thing, which is long");
  EXPECT_EQ(SaidInJobFolder(folder.path()), "one thing, which is long");
  claim.Say("another\x1b");
  EXPECT_EQ(SaidInJobFolder(folder.path()), "another?");
  claim.Say("");
  EXPECT_EQ(SaidInJobFolder(folder.path()), "");
}

TEST(FolderClaimTest, WhatADeadRunSaidIsNotTold) {
  const ScratchFolder folder;
  {
    FolderClaim claim;
    ASSERT_TRUE(claim.Take(folder.path()).ok());
    claim.Say("something");
  }
  EXPECT_EQ(SaidInJobFolder(folder.path()), "");
}

TEST(FolderClaimTest, AFolderThatItMadeGoesUnlessThereIsAJob) {
  const ScratchFolder folder;
  const std::string job_dir = folder.path() + "/new/job";
  { EXPECT_TRUE(FolderClaim().Take(job_dir).ok()); }
  EXPECT_FALSE(fs::exists(job_dir));
  {
    FolderClaim claim;
    ASSERT_TRUE(claim.Take(job_dir).ok());
    std::ofstream(job_dir + "/results") << "x";
  }
  EXPECT_TRUE(fs::exists(job_dir + "/results")) << "which the code wrote";
  fs::remove_all(job_dir);
  {
    FolderClaim claim;
    ASSERT_TRUE(claim.Take(job_dir).ok());
    claim.Keep();
  }
  EXPECT_TRUE(fs::exists(job_dir));
  fs::remove_all(job_dir + "/logs");
  { EXPECT_TRUE(FolderClaim().Take(job_dir).ok()); }
  EXPECT_TRUE(fs::exists(job_dir)) << "it was there";
}

}  // namespace
}  // namespace downpour
