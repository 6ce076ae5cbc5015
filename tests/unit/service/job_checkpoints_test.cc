#include "service/job_checkpoints.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "schema/checkpoint_format.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

TEST(JobCheckpointsTest, AreListedNewestFirstWithWhatIsWrongWithThem) {
  const ScratchFolder folder;
  const auto write = [&](Round round, const std::string& shard) {
    Manifest manifest;
    manifest.round = round;
    manifest.unix_ms = 1'700'000'000'123;
    manifest.files = {{"ps-0.shard", 5}};
    manifest.committed.InsertRange(0, 9);
    folder.Write(ManifestPath(round), EncodeManifest(manifest));
    folder.Write(ShardPath(round, "ps-0.shard"), shard);
  };
  write({1, 1}, "whole");
  write({1, 2}, "cut");
  folder.Write(ShardPath({1, 4}, "ps-0.shard"), "some");
  folder.Write(ManifestPath({1, 3}), "no manifest");
  const nlohmann::json list = ListCheckpoints(folder.path());
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0], (nlohmann::json{{"round", "1-4"}, {"state", "unfinished"}}));
  EXPECT_EQ(list[1]["state"], "damaged");
  EXPECT_EQ(list[2]["state"], "damaged");
  EXPECT_EQ(list[2]["why"], "checkpoints/1-2/ps-0.shard has 3 bytes, and not 5");
  EXPECT_EQ(list[3], (nlohmann::json{{"round", "1-1"},
                                     {"state", "complete"},
                                     {"unixMs", 1'700'000'000'123},
                                     {"bytes", 5},
                                     {"leasesCommitted", 9}}));
  EXPECT_EQ(ListCheckpoints("/none"), nlohmann::json::array());
}

TEST(JobCheckpointsTest, TheCommandThatContinuesIsThatOfTheChiefAndIsForWhatIsLeftUnfinished) {
  const ScratchFolder folder;
  const auto command = [&](JobState state) {
    return CommandToResume(Job{.name = "one", .state = state}, folder.path());
  };
  folder.Write("chief.json", R"({"endpoint": "127.0.0.1:1", "command": "downpour run j.yaml -- --rate 1", "term": 1})");
  EXPECT_EQ(command(JobState::kFailed), "") << "there is no checkpoint";
  Manifest manifest;
  manifest.round = {1, 1};
  manifest.files = {{"ps-0.shard", 5}};
  folder.Write(ManifestPath(manifest.round), EncodeManifest(manifest));
  folder.Write(ShardPath(manifest.round, "ps-0.shard"), "whole");
  EXPECT_EQ(command(JobState::kFailed), "downpour run j.yaml --resume -- --rate 1");
  EXPECT_EQ(command(JobState::kCancelled), "downpour run j.yaml --resume -- --rate 1");
  for (const JobState state : {JobState::kQueued, JobState::kRunning, JobState::kSucceeded, JobState::kCancelling}) {
    EXPECT_EQ(command(state), "") << NameOf(state);
  }
  folder.Write("chief.json", R"({"endpoint": "127.0.0.1:1"})");
  EXPECT_EQ(command(JobState::kFailed), "") << "nobody knows by what it was started";
}

}  // namespace
}  // namespace downpour
