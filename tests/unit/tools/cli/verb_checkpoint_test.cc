#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/made_journal.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class VerbCheckpointTest : public ::testing::Test {
 protected:
  VerbCheckpointTest() {
    for (uint32_t n = 1; n <= 2; ++n) MakeCheckpoint(dir_, SmallJob(), {1, n}, Zero);
  }
  std::string Path(const std::string& name) const { return dir_ + "/checkpoints/" + name; }
  void Flip(const std::string& name, size_t at) const {
    std::string bytes = ReadFile(Path(name));
    bytes.at(at) ^= 1;
    PutFile(Path(name), bytes);
  }
  ToolOutcome Checkpoint(std::vector<std::string> words) const {
    words.insert(words.begin(), "checkpoint");
    words.insert(words.end(), {"--job-dir", dir_});
    return RunDownpour(words);
  }
  json CheckpointJson(std::vector<std::string> words) const {
    words.insert(words.end(), {"-o", "json"});
    return json::parse(Checkpoint(words).out);
  }

  const std::string dir_ = FreshFolder("verb_checkpoint");
};

TEST_F(VerbCheckpointTest, ListsNewestFirstWithWhatEachIsWorth) {
  std::filesystem::create_directories(Path("1-3"));
  std::filesystem::remove(Path("1-1/ps-0.shard"));
  const json list = CheckpointJson({"list"});
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["round"], "1-3");
  EXPECT_EQ(list[0]["state"], "unfinished");
  EXPECT_EQ(list[1]["round"], "1-2");
  EXPECT_EQ(list[1]["state"], "complete");
  EXPECT_EQ(list[1]["leasesCommitted"], 0);
  EXPECT_EQ(list[1]["bytes"],
            std::filesystem::file_size(Path("1-2/ps-0.shard")) + std::filesystem::file_size(Path("1-2/ps-1.shard")));
  EXPECT_EQ(list[2]["state"], "damaged");
  EXPECT_THAT(list[2]["why"].get<std::string>(), HasSubstr("1-1/ps-0.shard: No such file"));
  const ToolOutcome table = Checkpoint({"list"});
  EXPECT_EQ(table.code, kExitDone);
  EXPECT_THAT(table.out, AllOf(HasSubstr("ROUND  WRITTEN"), HasSubstr("1-2    1970-01-01 00:00:00 UTC")));
}

TEST_F(VerbCheckpointTest, WhatCannotBeReadIsNeitherDamagedNorAbsent) {
  for (const char* name : {"1-1/ps-0.shard", "1-2/MANIFEST"}) {
    std::filesystem::remove(Path(name));
    std::filesystem::create_directories(Path(name));
  }
  const json list = CheckpointJson({"list"});
  EXPECT_EQ(list[0]["state"], "unreadable");
  EXPECT_THAT(list[0]["why"].get<std::string>(), HasSubstr("1-2/MANIFEST: is a folder"));
  EXPECT_THAT(Checkpoint({"verify"}).out, HasSubstr("1-1/ps-0.shard: is a folder"));
  std::filesystem::remove_all(dir_ + "/checkpoints");
  PutFile(dir_ + "/checkpoints", "");
  for (const char* verb : {"list", "verify", "inspect"}) {
    EXPECT_THAT(Checkpoint({verb}).err, HasSubstr("cannot read the folder " + dir_ + "/checkpoints: Not a directory"));
  }
}

// The chief's journal knows of it.
TEST_F(VerbCheckpointTest, TheNewestIsMissedWhereItIsGone) {
  PutFile(dir_ + "/journal.b", MadeJournal(3, {1, 2}));
  EXPECT_EQ(CheckpointJson({"list"})[0]["state"], "complete");
  std::filesystem::remove(Path("1-2/MANIFEST"));
  std::filesystem::create_directories(Path("2-1"));
  const json list = CheckpointJson({"list"});
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["state"], "unfinished");
  EXPECT_EQ(list[1]["round"], "1-2");
  EXPECT_EQ(list[1]["state"], "gone");
  EXPECT_EQ(list[2]["state"], "complete");
  const ToolOutcome verify = Checkpoint({"verify"});
  EXPECT_EQ(verify.code, kExitFailed);
  EXPECT_THAT(verify.out, AllOf(HasSubstr("1-2: it is gone: "), HasSubstr("1-1: valid")));
  std::filesystem::remove_all(Path("1-1"));
  EXPECT_THAT(Checkpoint({"inspect"}).err, HasSubstr(": 1-2, which was, is gone"));

  PutFile(dir_ + "/journal.a", MadeJournal(4, {1, 2}, /*abandoned=*/{1, 2}));
  EXPECT_EQ(CheckpointJson({"list"})[1]["state"], "unfinished") << "somebody gave it up";
}

TEST_F(VerbCheckpointTest, TheBestIsMarkedAndFoundByThatWord) {
  EXPECT_THAT(Checkpoint({"inspect", "--checkpoint", "best"}).err, HasSubstr("names no best checkpoint"));
  PutFile(dir_ + "/journal.a", MadeJournalOfBest(3, {1, 2}, {1, 1}));
  const json list = CheckpointJson({"list"});
  EXPECT_FALSE(list[0].contains("best"));
  EXPECT_EQ(list[1]["best"], (json{{"metric", "loss"},
                                   {"value", 0.25},
                                   {"epoch", 3},
                                   {"evaluated", {{"oldestVersion", 7}, {"newestVersion", 9}}},
                                   {"kept", {{"oldestVersion", 10}, {"newestVersion", 12}}}}));
  EXPECT_THAT(Checkpoint({"list"}).out, HasSubstr("complete, the best: loss 0.25 after 3 epochs"));
  EXPECT_EQ(CheckpointJson({"inspect", "--checkpoint", "best"})["round"], "1-1");
  EXPECT_EQ(CheckpointJson({"inspect", "--checkpoint", "best"})["best"]["value"], 0.25);
  EXPECT_THAT(Checkpoint({"inspect", "--checkpoint", "1-1"}).out, HasSubstr("the best: loss 0.25 after 3 epochs"));
  EXPECT_THAT(Checkpoint({"inspect"}).out, Not(HasSubstr("the best")));
  EXPECT_EQ(CheckpointJson({"verify", "--checkpoint", "best"})[0]["round"], "1-1");
  const std::string out = dir_ + "/best.safetensors";
  EXPECT_EQ(RunDownpour({"export", "--job-dir", dir_, "--checkpoint", "best", "--out", out}).code, kExitDone);
  EXPECT_THAT(ReadFile(out), HasSubstr("\"checkpoint\":\"1-1\""));
  Flip("1-1/ps-0.shard", 100);
  EXPECT_THAT(RunDownpour({"export", "--job-dir", dir_, "--checkpoint", "best", "--out", out}).err,
              HasSubstr("1-1/ps-0.shard"));
  const ToolOutcome worst = RunDownpour({"export", "--job-dir", dir_, "--checkpoint", "worst", "--out", out});
  EXPECT_EQ(worst.code, kExitBadCommandLine);
  EXPECT_THAT(worst.err, HasSubstr("'worst' names no checkpoint round; TERM-N does, and best"));
  std::filesystem::remove(Path("1-1/ps-0.shard"));
  EXPECT_THAT(Checkpoint({"list"}).out, AllOf(HasSubstr("damaged"), Not(HasSubstr("the best"))));
}

TEST_F(VerbCheckpointTest, VerifyNamesFileAndBytesOfWhatIsDamaged) {
  std::filesystem::create_directories(Path("1-3"));  // unfinished: no checkpoint
  ToolOutcome outcome = Checkpoint({"verify"});
  EXPECT_EQ(outcome.code, kExitDone);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("1-2: valid, all "), HasSubstr("1-1: valid, all ")));
  Flip("1-2/ps-1.shard", 3);
  Flip("1-1/MANIFEST", 30);
  EXPECT_EQ(CheckpointJson({"list"})[1]["state"], "complete") << "what is in the files only verify reads";
  outcome = Checkpoint({"verify"});
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("1-2/ps-1.shard: the checksum of bytes 0 to"),
                                 HasSubstr("1-1/MANIFEST: a damaged manifest"), Not(HasSubstr("valid, all"))));
  EXPECT_EQ(Checkpoint({"verify", "--checkpoint", "1-3"}).code, kExitFailed);
  const json report = CheckpointJson({"verify", "--checkpoint", "1-2"});
  ASSERT_EQ(report.size(), 1u);
  EXPECT_EQ(report[0]["valid"], false);
  EXPECT_EQ(report[0]["damage"].size(), 1u);
}

TEST_F(VerbCheckpointTest, VerifyTellsTheFirstOfMuchDamageUnlessAskedForAll) {
  JobSpec job = SmallJob();
  for (int i = 0; i < 9; ++i) {
    LayerSpec next = job.model.layers.back();
    next.from = {next.name};
    next.name = absl::StrCat("more", i);
    job.model.layers.push_back(std::move(next));
  }
  MakeCheckpoint(dir_, job, {2, 1}, Zero);  // of 20 slices, every other one in ps-0.shard
  PutFile(Path("2-1/ps-0.shard"), "");
  const auto lines = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"verify", "--checkpoint", "2-1"});
    const std::string out = Checkpoint(words).out;
    return std::count(out.begin(), out.end(), '\n');
  };
  const auto all = static_cast<ptrdiff_t>(CheckpointJson({"verify", "--checkpoint", "2-1"})[0]["damage"].size());
  EXPECT_EQ(all, 11) << "its length, and each slice in it";
  EXPECT_EQ(lines({}), 6);
  EXPECT_THAT(Checkpoint({"verify", "--checkpoint", "2-1"}).out,
              HasSubstr("2-1: and 6 more like these; -v tells all\n"));
  EXPECT_EQ(lines({"-v"}), all);
}

TEST_F(VerbCheckpointTest, InspectTellsThePlanThePositionAndEachSlice) {
  const json found = CheckpointJson({"inspect"});
  EXPECT_EQ(found["round"], "1-2");
  EXPECT_EQ(found["job"]["name"], "small");
  EXPECT_EQ(found["optimizer"], json({{"name", "momentum"}, {"slots", {"velocity"}}}));
  EXPECT_EQ(found["position"]["leases"], 0);
  EXPECT_EQ(found["variables"][0], json({{"name", "out/kernel"}, {"shape", {4, 3}}}));
  ASSERT_EQ(found["slices"].size(), 2u);
  EXPECT_EQ(found["slices"][1]["version"], 11);
  EXPECT_EQ(found["slices"][1]["file"], "ps-1.shard");
  EXPECT_EQ(found["slices"][1]["elements"], 3);
  const ToolOutcome table = Checkpoint({"inspect", "--slices"});
  EXPECT_EQ(table.code, kExitDone);
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("slots of each value: velocity"), HasSubstr("out/kernel  4 x 3"),
                    HasSubstr("SLICE  VARIABLE"), HasSubstr("batches of 2"), HasSubstr("pushEvery 1, wire fp32")));
}

TEST_F(VerbCheckpointTest, InspectPassesOverWhatIsDamaged) {
  Flip("1-2/ps-0.shard", 0);
  EXPECT_EQ(CheckpointJson({"inspect"})["round"], "1-1");
  EXPECT_THAT(Checkpoint({"inspect"}).err, HasSubstr("passing over checkpoint 1-2"));
}

TEST_F(VerbCheckpointTest, AFolderWithoutCheckpointsIsAnswered) {
  std::filesystem::remove_all(Path(""));
  for (const char* verb : {"list", "verify", "inspect"}) {
    const ToolOutcome outcome = Checkpoint({verb});
    EXPECT_EQ(outcome.code, kExitFailed) << verb;
    EXPECT_THAT(outcome.err, HasSubstr("there is no checkpoint in " + dir_)) << verb;
  }
  EXPECT_EQ(CheckpointJson({"list"}), nlohmann::json::array()) << "a program asks, and none is an answer";
  std::filesystem::remove_all(dir_);
  EXPECT_EQ(Checkpoint({"list", "-o", "json"}).code, kExitFailed) << "there is no such folder";
}

TEST(CheckpointWithTables, NamesBucketsWhereSlicesAre) {
  const std::string dir = FreshFolder("checkpoint_tables");
  MakeCheckpoint(dir, JobWithTables(), {1, 1}, Zero);
  const ToolOutcome shown = RunDownpour({"checkpoint", "inspect", "--job-dir", dir, "--slices"});
  ASSERT_EQ(shown.code, kExitDone) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("out/kernel"), HasSubstr("out/bias"), HasSubstr("bucket 3")));
  const json all = json::parse(RunDownpour({"checkpoint", "inspect", "--job-dir", dir, "-o", "json"}).out);
  EXPECT_EQ(all["variables"].size(), 2u);
  ASSERT_EQ(all["slices"].size(), 6u);
  EXPECT_EQ(all["slices"][5]["variable"], "bucket 3");
}

}  // namespace
}  // namespace downpour
