// `downpour data split`: each record goes to one set, as it stands, and its twins with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using testing::HasSubstr;

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class DataSplitTest : public testing::Test {
 protected:
  void SetUp() override { dir_ = FreshFolder("data_split"); }
  ToolOutcome Split(const std::string& text, std::vector<std::string> more = {}) {
    PutFile(dir_ + "/file.csv", text);
    std::vector<std::string> args = {"data", "split", dir_ + "/file.csv", "--out", dir_ + "/sets"};
    args.insert(args.end(), more.begin(), more.end());
    return RunDownpour(args);
  }
  std::vector<std::string> LinesOf(const std::string& set) {
    std::vector<std::string> lines = absl::StrSplit(BytesOf(dir_ + "/sets/" + set), '\n');
    EXPECT_EQ(lines.back(), "") << "a last record ends its line";
    lines.pop_back();
    return lines;
  }
  std::string dir_;
};

TEST_F(DataSplitTest, EachRecordIsInOneSetAndTwinsTogether) {
  std::string text = "a,b\r\n";
  std::multiset<std::string> records;
  for (int i = 0; i < 3000; ++i) {
    const std::string record = absl::StrCat(i % 1000, ",\"", i % 1000, "\"");
    absl::StrAppend(&text, record, i == 2999 ? "" : "\r\n");
    records.insert(record + (i == 2999 ? "" : "\r"));
  }
  const ToolOutcome said = Split(text, {"--shares", "70,20,10"});
  ASSERT_EQ(said.code, kExitDone) << said.err;
  std::map<std::string, std::string> set_of;
  std::multiset<std::string> found;
  std::map<std::string, size_t> sizes;
  for (const char* set : {"train.csv", "eval.csv", "test.csv"}) {
    const std::vector<std::string> lines = LinesOf(set);
    EXPECT_EQ(lines[0], "a,b\r") << "the header is in each set";
    sizes[set] = lines.size() - 1;
    for (size_t i = 1; i < lines.size(); ++i) {
      found.insert(lines[i]);
      const std::string record = lines[i].substr(0, lines[i].find('\r'));
      EXPECT_EQ(set_of.emplace(record, set).first->second, set) << record;
    }
  }
  EXPECT_EQ(found, records);
  EXPECT_NEAR(static_cast<double>(sizes["train.csv"]), 2100, 150);
  EXPECT_NEAR(static_cast<double>(sizes["eval.csv"]), 600, 120);
  EXPECT_NEAR(static_cast<double>(sizes["test.csv"]), 300, 90);
}

TEST_F(DataSplitTest, AnotherSeedSplitsOtherwiseAndTheSameOneAgain) {
  std::string text;
  for (int i = 0; i < 200; ++i) absl::StrAppend(&text, i, ";", i, "\n");
  std::vector<std::string> evals;
  for (const char* seed : {"1", "1", "2"}) {
    ASSERT_EQ(Split(text, {"--seed", seed, "--header", "no"}).code, kExitDone);
    evals.push_back(BytesOf(dir_ + "/sets/eval.csv"));
    std::filesystem::remove_all(dir_ + "/sets");
  }
  EXPECT_EQ(evals[0], evals[1]);
  EXPECT_NE(evals[0], evals[2]);
}

TEST_F(DataSplitTest, NothingIsOverwrittenAndNothingHalfWritten) {
  ASSERT_EQ(Split("a,b\n1,2\n3,4\n").code, kExitDone);
  EXPECT_THAT(Split("a,b\n1,2\n").err, HasSubstr("train.csv is there already"));
  std::filesystem::remove_all(dir_ + "/sets");
  std::string many = "a,b\n";
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&many, i, ",1\n");
  EXPECT_THAT(Split(many + "3,\"4\n").err, HasSubstr("file.csv:5002"));
  EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/sets"));
  for (const char* shares : {"1", "1,0", "1,-1", "a,b", "1,1,1,1", "nan,1"}) {
    EXPECT_NE(Split("a,b\n1,2\n", {"--shares", shares}).code, kExitDone) << shares;
  }
}

}  // namespace
}  // namespace downpour
