#include "service/job_checkpoints.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "schema/checkpoint_format.h"
#include "tests/unit/tools/scratch_folder.h"

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

}  // namespace
}  // namespace downpour
