#include "cluster/job_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "schema/checkpoint_format.h"
#include "tests/unit/scratch_folder.h"

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
  EXPECT_EQ(location->pid, 12);
  EXPECT_EQ(location->term, 3u);
}

TEST_F(JobFolderTest, AChiefsSecretIsItsFolders) {
  folder_.Write("chief.json", R"({"endpoint": "127.0.0.1:7000"})");
  EXPECT_EQ(ReadChiefLocation(folder_.path())->secret, "");
  folder_.Write("chief.json", R"({"endpoint": "127.0.0.1:7000", "secret": "0123"})");
  EXPECT_EQ(ReadChiefLocation(folder_.path())->secret, "0123");
}

TEST_F(JobFolderTest, AChiefJsonOfAnotherUserIsToldApartFromNone) {
  constexpr uid_t kNobody = 65534;
  const std::string file = folder_.Write("chief.json", R"({"endpoint": "127.0.0.1:7000"})");
  fs::permissions(folder_.path(), fs::perms::all);
  const bool is_root = geteuid() == 0;
  fs::permissions(file, is_root ? fs::perms::owner_all : fs::perms::none);
  ASSERT_EQ(is_root ? seteuid(kNobody) : 0, 0);
  const absl::Status status = ReadChiefLocation(folder_.path()).status();
  ASSERT_EQ(is_root ? seteuid(0) : 0, 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ask as the user whose job it is"));
}

TEST_F(JobFolderTest, WhatAnEarlierChiefLeftIsNoAnnouncementEvenUnderTheSamePid) {
  folder_.Write("chief.json", R"({"endpoint": "h0:1", "pid": 12, "term": 3})");
  ChiefAnnouncement announcement(folder_.path());
  announcement.Expect(12);
  EXPECT_FALSE(announcement.Look().has_value());
  folder_.Write("chief.json", R"({"endpoint": "h0:1", "pid": 13, "term": 4})");
  EXPECT_FALSE(announcement.Look().has_value());
  folder_.Write("chief.json", R"({"endpoint": "h0:1", "pid": 12, "term": 5})");
  ASSERT_TRUE(announcement.Look().has_value());
  EXPECT_EQ(announcement.Look()->term, 5u);
}

TEST_F(JobFolderTest, ASummaryIsOfTheChiefWhoseTermItNames) {
  folder_.Write("summary.json", R"({"state": "SUCCEEDED", "term": 3})");
  EXPECT_EQ(ReadSummaryOf(folder_.path(), 4).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(ReadSummaryOf(folder_.path(), 3).ok());
  EXPECT_EQ(ReadSummaryOf(folder_.path(), 3)->summary.state, "SUCCEEDED");
  folder_.Write("summary.json", R"({"state": "SUCCEEDED"})");
  EXPECT_EQ(ReadSummaryOf(folder_.path(), 0).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(JobFolderTest, AFailureIsRecordedOnlyWhereTheChiefKnewOfNone) {
  for (const char* state : {"CANCELLED", "FAILED", "SUCCEEDED"}) {
    folder_.Write("summary.json", std::string(R"({"state": ")") + state + R"(", "term": 3, "steps": 7})");
    ASSERT_TRUE(RecordFailure(folder_.path(), 3, "cause").ok());
    const auto found = ReadSummaryOf(folder_.path(), 3);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->summary.error, state == std::string("CANCELLED") ? "cause" : "");
    EXPECT_THAT(found->json, HasSubstr("\"steps\": 7"));
  }
  EXPECT_EQ(ReadSummaryOf(folder_.path(), 3)->summary.state, "SUCCEEDED");
}

TEST_F(JobFolderTest, AFailureOfAChiefThatWroteNoSummaryIsRecordedToo) {
  folder_.Write("summary.json", R"({"state": "SUCCEEDED", "term": 3})");
  ASSERT_TRUE(RecordFailure(folder_.path(), 4, "cause").ok());
  const auto found = ReadSummaryOf(folder_.path(), 4);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->summary.state, "FAILED");
  EXPECT_EQ(found->summary.error, "cause");
}

TEST_F(JobFolderTest, AFailureThatCannotBeRecordedLeavesTheSummaryThatIsThere) {
  folder_.Write("summary.json", R"({"state": "CANCELLED", "term": 3})");
  fs::create_directory(folder_.path() + "/summary.json.tmp");
  const absl::Status recorded = RecordFailure(folder_.path(), 3, "cause");
  EXPECT_THAT(std::string(recorded.message()), HasSubstr("cannot write " + folder_.path() + "/summary.json: "));
  ASSERT_TRUE(ReadSummaryOf(folder_.path(), 3).ok());
  EXPECT_EQ(ReadSummaryOf(folder_.path(), 3)->summary.state, "CANCELLED");
}

TEST_F(JobFolderTest, AChiefJsonThatSaysNothingIsNamed) {
  for (const char* text : {"", "[]", "{\"endpoint\": 3}", "{"}) {
    folder_.Write("chief.json", text);
    const auto location = ReadChiefLocation(folder_.path());
    EXPECT_EQ(location.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(location.status().message()), HasSubstr("chief.json"));
  }
}

TEST_F(JobFolderTest, TheNewestCheckpointIsTheHighestRoundWithAWholeManifest) {
  const auto write = [this](Round round) {
    Manifest manifest;
    manifest.round = round;
    folder_.Write(ManifestPath(round), EncodeManifest(manifest));
  };
  EXPECT_EQ(NewestCheckpoint(folder_.path()), "");
  write({1, 2});
  write({1, 10});
  folder_.Write("checkpoints/2-1/ps-0.shard", "");
  folder_.Write("checkpoints/2-2/MANIFEST", "damaged");
  fs::create_directories(folder_.path() + "/checkpoints/2-3/MANIFEST");
  folder_.Write("checkpoints/nonsense/MANIFEST", "");
  EXPECT_EQ(NewestCheckpoint(folder_.path()), "checkpoints/1-10");
  write({2, 1});
  EXPECT_EQ(NewestCheckpoint(folder_.path()), "checkpoints/2-1");
}

TEST_F(JobFolderTest, AJobIsWhereAChiefListenedOrACheckpointIs) {
  EXPECT_FALSE(HoldsJob(folder_.path()));
  folder_.Write("chief.json", "{}");
  EXPECT_TRUE(HoldsJob(folder_.path()));
  fs::remove(folder_.path() + "/chief.json");
  folder_.Write("checkpoints/1-2/MANIFEST", "");
  EXPECT_TRUE(HoldsJob(folder_.path())) << "a copy of its checkpoints";
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
