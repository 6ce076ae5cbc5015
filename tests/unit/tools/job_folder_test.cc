#include "tools/job_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/tools/scratch_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class JobFolderTest : public ::testing::Test {
 protected:
  ScratchFolder folder_;
};

TEST_F(JobFolderTest, TheChiefIsWhereChiefJsonSays) {
  EXPECT_EQ(ReadChiefLocation(folder_.path()).status().code(), absl::StatusCode::kNotFound);
  folder_.Write("chief.json", R"({"endpoint": "127.0.0.1:7000", "host": "h0", "pid": 12, "term": 3})");
  const auto location = ReadChiefLocation(folder_.path());
  ASSERT_TRUE(location.ok());
  EXPECT_EQ(location->endpoint, "127.0.0.1:7000");
  EXPECT_EQ(location->host, "h0");
  EXPECT_EQ(location->pid, 12);
}

TEST_F(JobFolderTest, AChiefJsonThatSaysNothingIsNamed) {
  for (const char* text : {"", "[]", "{\"endpoint\": 3}", "{"}) {
    folder_.Write("chief.json", text);
    const auto location = ReadChiefLocation(folder_.path());
    EXPECT_EQ(location.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(location.status().message()), HasSubstr("chief.json"));
  }
}

TEST_F(JobFolderTest, TheNewestCheckpointIsTheHighestRoundWithAManifest) {
  EXPECT_EQ(NewestCheckpoint(folder_.path()), "");
  folder_.Write("checkpoints/1-2/MANIFEST", "");
  folder_.Write("checkpoints/1-10/MANIFEST", "");
  folder_.Write("checkpoints/2-1/ps-0.shard", "");
  folder_.Write("checkpoints/nonsense/MANIFEST", "");
  EXPECT_EQ(NewestCheckpoint(folder_.path()), "checkpoints/1-10");
  folder_.Write("checkpoints/2-1/MANIFEST", "");
  EXPECT_EQ(NewestCheckpoint(folder_.path()), "checkpoints/2-1");
}

TEST_F(JobFolderTest, AFolderIsClaimedByOneRunAtATime) {
  const std::string job_dir = folder_.path() + "/deep/job";
  {
    const auto claim = ClaimJobFolder(job_dir);
    ASSERT_TRUE(claim.ok()) << claim.status();
    EXPECT_TRUE(fs::is_directory(job_dir + "/logs"));
    EXPECT_EQ(ClaimJobFolder(job_dir).status().code(), absl::StatusCode::kAlreadyExists);
  }
  EXPECT_TRUE(ClaimJobFolder(job_dir).ok());
}

TEST_F(JobFolderTest, AFolderThatCannotBeMadeIsNamed) {
  folder_.Write("file", "");
  const auto claim = ClaimJobFolder(folder_.path() + "/file/job");
  EXPECT_THAT(std::string(claim.status().message()), HasSubstr("/file/job"));
}

}  // namespace
}  // namespace downpour
