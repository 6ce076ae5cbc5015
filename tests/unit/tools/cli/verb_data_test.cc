#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kPeople[] = "age,work,pay\n39, State-gov,1.5\n50,?,2\n38, Private,\nodd\n28, Private,-3.5\n";

class DataTest : public testing::Test {
 protected:
  void SetUp() override { dir_ = FreshFolder("data"); }
  ToolOutcome Data(const std::string& verb, const std::string& text, std::vector<std::string> more = {}) {
    PutFile(dir_ + "/file.csv", text);
    std::vector<std::string> args = {"data", verb, dir_ + "/file.csv"};
    args.insert(args.end(), more.begin(), more.end());
    return RunDownpour(args);
  }
  std::string dir_;
};

TEST_F(DataTest, StatsTellWhatEachColumnHas) {
  const ToolOutcome said = Data("stats", kPeople, {"-o", "json"});
  ASSERT_EQ(said.code, kExitDone) << said.err;
  EXPECT_EQ(json::parse(said.out),
            json::parse(R"({"format": "csv", "rows": 4, "badRecords": 1, "separator": ",", "header": true,
      "columns": [
        {"name": "age", "type": "int64", "missing": 0, "distinct": 4, "moreDistinct": false,
         "min": 28.0, "max": 50.0, "mean": 38.75, "mostFrequent": "28", "frequency": 1},
        {"name": "work", "type": "text", "missing": 1, "distinct": 2, "moreDistinct": false,
         "mostFrequent": "Private", "frequency": 2},
        {"name": "pay", "type": "float", "missing": 1, "distinct": 3, "moreDistinct": false,
         "min": -3.5, "max": 2.0, "mean": 0.0, "mostFrequent": "-3.5", "frequency": 1}]})"))
      << said.out;
  EXPECT_THAT(said.err, HasSubstr("1 record left out, the first at " + dir_ + "/file.csv:5: 1 field, of most 3"));
}

TEST_F(DataTest, StatsAsATable) {
  const ToolOutcome said = Data("stats", "1;a\n2;b\n", {});
  ASSERT_EQ(said.code, kExitDone) << said.err;
  EXPECT_EQ(said.out,
            "2 rows; fields between semicolons, no names\n\n"
            "column  type   most frequent  count  missing  distinct  min  max  mean\n"
            "c0      int64  1                  1        0         2    1    2   1.5\n"
            "c1      text   a                  1        0         2    -    -     -\n");
}

TEST_F(DataTest, OfManyValuesOnlySoManyAreCounted) {
  std::string text = "n\n";
  for (int i = 0; i < 1500; ++i) text += std::to_string(i) + "\n";
  const json column = json::parse(Data("stats", text, {"-o", "json"}).out)["columns"][0];
  EXPECT_EQ(column["distinct"], 1000);
  EXPECT_EQ(column["moreDistinct"], true);
  EXPECT_EQ(column["max"], 1499);
  EXPECT_FALSE(column.contains("mostFrequent"));
}

TEST_F(DataTest, HeadShowsTheFirstRecords) {
  EXPECT_EQ(
      json::parse(Data("head", kPeople, {"-n", "2", "-o", "json"}).out),
      json::parse(R"({"columns": ["age", "work", "pay"], "rows": [["39", "State-gov", "1.5"], ["50", "?", "2"]]})"));
  EXPECT_EQ(Data("head", "a\tb\nc\td\n", {"--header", "no", "-n", "1"}).out, "c0  c1\na   b\n");
  EXPECT_EQ(Data("head", "a-b\nc-d\n", {"--header", "yes", "--separator", "-"}).out, "a  b\nc  d\n");
}

TEST_F(DataTest, WhatCannotBeReadIsNamed) {
  EXPECT_THAT(Data("stats", "a,b\n1,\"2\n").err, HasSubstr("file.csv:2: a quote is not closed"));
  EXPECT_THAT(Data("stats", "").err, HasSubstr("has no records"));
  EXPECT_EQ(Data("head", "a,b\n", {"--separator", "ab"}).code, kExitBadCommandLine);
  EXPECT_EQ(Data("head", "a,b\n", {"-n", "-1"}).code, kExitBadCommandLine);
  EXPECT_EQ(Data("head", "sep=;\r\na;b\r\n1;2\r\n").out, "a  b\n1  2\n");
  const ToolOutcome behind = Data("head", "# made today\na;b\n1;2\n3;4\n");
  EXPECT_EQ(behind.out, "a  b\n1  2\n3  4\n");
  EXPECT_THAT(behind.err, HasSubstr("1 record left out, the first at " + dir_ + "/file.csv:1: 1 field, of most 2"));
  EXPECT_THAT(Data("head", kPeople).err, HasSubstr("1 record left out, the first at "));
  const ToolOutcome absent = RunDownpour({"data", "stats", dir_ + "/absent"});
  EXPECT_EQ(absent.code, kExitFailed);
  EXPECT_THAT(absent.err, HasSubstr("cannot open " + dir_ + "/absent: No such file"));
}

}  // namespace
}  // namespace downpour
