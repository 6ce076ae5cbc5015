// `downpour data head|stats` of formats other than CSV.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class RecordStatsTest : public testing::Test {
 protected:
  void SetUp() override { dir_ = FreshFolder("record_stats"); }
  ToolOutcome Data(const std::string& verb, const std::string& text, std::vector<std::string> more = {}) {
    PutFile(dir_ + "/file", text);
    std::vector<std::string> args = {"data", verb, dir_ + "/file"};
    args.insert(args.end(), more.begin(), more.end());
    return RunDownpour(args);
  }
  std::string dir_;
};

constexpr char kEvents[] =
    "{\"a\": {\"b\": 1}, \"x\": [1, 2], \"t\": \"u\"}\n"
    "{\"a\": {\"b\": 2.5}, \"x\": [3, null], \"late\": true}\nodd\n"
    "{\"x\": [5, 6]}\n";

TEST_F(RecordStatsTest, FieldsAreThoseOfAllRecords) {
  const ToolOutcome said = Data("stats", kEvents, {"-o", "json"});
  ASSERT_EQ(said.code, kExitDone) << said.err;
  EXPECT_EQ(json::parse(said.out), json::parse(R"({"format": "jsonl", "rows": 3, "badRecords": 1, "columns": [
        {"name": "a.b", "type": "float", "missing": 1, "distinct": 2, "moreDistinct": false,
         "min": 1.0, "max": 2.5, "mean": 1.75, "mostFrequent": "1", "frequency": 1},
        {"name": "x", "type": "float[2]", "missing": 0, "distinct": 0, "moreDistinct": true,
         "min": 1.0, "max": 6.0, "mean": 3.4},
        {"name": "t", "type": "text", "missing": 2, "distinct": 1, "moreDistinct": false,
         "mostFrequent": "u", "frequency": 1},
        {"name": "late", "type": "text", "missing": 2, "distinct": 1, "moreDistinct": false,
         "mostFrequent": "true", "frequency": 1}]})"))
      << said.out;
  EXPECT_THAT(said.err, HasSubstr("1 record left out, the first at " + dir_ + "/file:3: no JSON"));
}

TEST_F(RecordStatsTest, AbsentIndicesOfLibsvmAreZero) {
  EXPECT_EQ(Data("head", "+1 2:3\n-1 1:7\n").out, "label  1  2\n+1     0  3\n-1     7  0\n");
  EXPECT_EQ(Data("head", "+1 0:3 2:1\n", {"-n", "1"}).out, "label  0  1  2\n+1     3  0  1\n");
  EXPECT_THAT(Data("stats", "+1 2:3\n-1 1:7\n").out, HasSubstr("2 rows; libsvm\n"));
}

TEST_F(RecordStatsTest, TheFormatCanBeSaid) {
  EXPECT_EQ(Data("head", "+1 2:3\n", {"--format", "csv", "--separator", ":"}).out, "c0    c1\n+1 2  3\n");
  EXPECT_EQ(Data("head", "+1 2:3\n", {"--separator", ":"}).out, "c0    c1\n+1 2  3\n");
  EXPECT_THAT(Data("head", "+1 2:3\n", {"--format", "libsvm", "--header", "no"}).err,
              HasSubstr("are for files of CSV"));
  EXPECT_THAT(Data("head", "a,b\n1,2\n", {"--format", "tfrecord"}).err,
              HasSubstr("/file at byte 0: the checksum of a record's length is wrong"));
  EXPECT_THAT(Data("head", "", {"--format", "jsonl"}).err, HasSubstr("has no records"));
  EXPECT_THAT(Data("job", kEvents, {"--label", "t"}).err,
              HasSubstr("is jsonl, and a job file is written for CSV only"));
}

TEST_F(RecordStatsTest, OfManyFieldsTheFirstAreShown) {
  std::string text = "{";
  for (int i = 0; i < 1500; ++i) text += "\"f" + std::to_string(i) + "\": 1, ";
  const ToolOutcome said = Data("stats", text + "\"z\": 1}\n", {"-o", "json"});
  EXPECT_EQ(json::parse(said.out)["columns"].size(), 1000u);
  EXPECT_THAT(said.err, HasSubstr("more than 1000 fields; the first are shown"));
}

}  // namespace
}  // namespace downpour
