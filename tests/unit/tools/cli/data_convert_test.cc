// `downpour data convert`: what stands in a file stands in the other one, and what cannot is said before.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/posix/fd.h"
#include "tests/unit/data/example_text.h"
#include "tests/unit/data/packed.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using testing::HasSubstr;

std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class DataConvertTest : public testing::Test {
 protected:
  void SetUp() override { dir_ = FreshFolder("data_convert"); }
  ToolOutcome Convert(const std::string& text, const std::string& to, std::vector<std::string> more = {}) {
    std::filesystem::remove_all(dir_ + "/out");
    PutFile(dir_ + "/file", text);
    std::vector<std::string> args = {"data", "convert", dir_ + "/file", "--to", to, "--out", dir_ + "/out"};
    args.insert(args.end(), more.begin(), more.end());
    return RunDownpour(args);
  }
  // What it writes, or says.
  std::string Converted(const std::string& text, const std::string& to, std::vector<std::string> more = {}) {
    const ToolOutcome said = Convert(text, to, std::move(more));
    return said.code == kExitDone ? TextOf(absl::StrCat(dir_, "/out/part-00000.", to)) : said.err;
  }
  std::string dir_;
};

constexpr char kTypedPeople[] =
    "name,age,zip,score,id\n"
    "\"Ann, \"\"A\"\"\",39,00501,0.5,9223372036854775807\n"
    "\"two\nlines\",NA,90210,3,-1\n"
    ",41,1,?,+7\n";

TEST_F(DataConvertTest, NumbersOfCsvAreNumbersAndWordsStayWords) {
  EXPECT_EQ(
      Converted(kTypedPeople, "jsonl"),
      "{\"name\": \"Ann, \\\"A\\\"\", \"age\": 39, \"zip\": \"00501\", \"score\": 0.5, \"id\": 9223372036854775807}\n"
      "{\"name\": \"two\\nlines\", \"age\": null, \"zip\": \"90210\", \"score\": 3.0, \"id\": -1}\n"
      "{\"name\": null, \"age\": 41, \"zip\": \"1\", \"score\": null, \"id\": 7}\n");
  EXPECT_EQ(Converted("a\tb\n?\t123456789012345678901234567890\nx\t1.5\n", "jsonl"),
            "{\"a\": \"?\", \"b\": \"123456789012345678901234567890\"}\n{\"a\": \"x\", \"b\": \"1.5\"}\n")
      << "a number that would lose digits is a word";
}

TEST_F(DataConvertTest, CsvIsWrittenAsItWasRead) {
  EXPECT_EQ(Converted(kTypedPeople, "csv"), kTypedPeople);
  EXPECT_EQ(Converted("{\"a\": \" x\", \"b.c\": 1}\n{\"a\": \"\", \"b\": {\"c\": 2.5}, \"late\": true}\n", "csv"),
            "a,b.c,late\n\" x\",1,\n,2.5,true\n");
  EXPECT_EQ(Converted("{\"a\": 0.1}\n{\"a\": null}\n{\"a\": 1e300}\n", "csv"), "a\n0.1\n\"\"\n1e+300\n")
      << "an empty line would be no record";
  EXPECT_EQ(Converted("+1 2:3\n-1 1:0.5\n", "csv"), "label,1,2\n+1,0.0,3\n-1,0.5,0\n");
}

TEST_F(DataConvertTest, FeaturesOfTfRecordHaveOneTypeEach) {
  const std::string records =
      "{\"n\": 1, \"x\": 1, \"w\": \"\\u00e4\", \"l\": [1, 2], \"t\": true, \"f\": [0.5], \"m\": [\"a\", \"b\"]}\n"
      "{\"n\": -2, \"x\": 0.5, \"w\": null, \"l\": 3, \"t\": false, \"f\": [1, null], \"m\": [\"c\"]}\n";
  const std::string expected =
      TfRecord(Example(Feature("n", Integers({1})) + Feature("x", Floats({1})) + Feature("w", Words({"\xc3\xa4"})) +
                       Feature("l", Integers({1, 2})) + Feature("t", Integers({1})) + Feature("f", Floats({0.5})) +
                       Feature("m", Words({"a", "b"})))) +
      TfRecord(Example(Feature("n", Integers({-2})) + Feature("x", Floats({0.5})) + Feature("w", "") +
                       Feature("l", Integers({3})) + Feature("t", Integers({0})) +
                       Feature("f", Floats({1, std::numeric_limits<float>::quiet_NaN()})) +
                       Feature("m", Words({"c"}))));
  EXPECT_EQ(Converted(records, "tfrecord"), expected);
  EXPECT_EQ(
      Converted(expected, "jsonl"),
      "{\"f\": [0.5], \"l\": [1, 2], \"m\": [\"a\", \"b\"], \"n\": 1, \"t\": 1, \"w\": \"\xc3\xa4\", \"x\": 1.0}\n"
      "{\"f\": [1.0, null], \"l\": [3], \"m\": [\"c\"], \"n\": -2, \"t\": 0, \"w\": null, \"x\": 0.5}\n");
}

TEST_F(DataConvertTest, WholeNumbersOfListsAreExact) {
  const std::string records =
      "{\"a\": [9007199254740993, 18446744073709551615]}\n{\"a\": []}\n{\"a\": [true, \"NA\"]}\n";
  PutFile(dir_ + "/other", "a\n1\n");
  EXPECT_EQ(
      Converted(records, "jsonl", {dir_ + "/other"}),
      "{\"a\": [9007199254740993, 18446744073709551615]}\n{\"a\": null}\n{\"a\": [true, \"NA\"]}\n{\"a\": [\"1\"]}\n");
}

TEST_F(DataConvertTest, WhatAFormatCannotHoldIsSaidBeforeAnythingIsWritten) {
  const std::string bytes = TfRecord(Example(Feature("b", Words({"\xff\xfe"}))));
  for (const auto& [text, to, words] : std::vector<std::array<std::string, 3>>{
           {"{\"a\": 1}\n{\"a\": [1, 2]}\n", "csv", "file:2: field 'a' has a list, and csv has none"},
           {bytes, "jsonl", "file at byte 0: field 'b' has bytes that are no UTF-8, and jsonl has text alone"},
           {bytes, "csv", "file at byte 0: field 'b' has bytes that are no UTF-8"},
           {TfRecord(Example(Feature("x", Floats({HUGE_VALF})))), "jsonl", "field 'x' has an infinite number"},
           {"{\"a\": 1}\n{\"a\": \"x\"}\n", "tfrecord", "has one: a text at " + dir_ + "/file:2, a whole number at"},
           {"{\"a\": 9007199254740993}\n{\"a\": 0.5}\n", "tfrecord", "a whole number beyond 2^53 at"},
           {"{\"a\": 18446744073709551615}\n", "tfrecord", "file:1: field 'a' has a whole number from 2^63 on"},
           {"{\"a\": 1e39}\n", "tfrecord", "file:1: field 'a' has a number beyond what 32 bits hold"},
           {"{\"a\": [1, null]}\n", "tfrecord", "file:1: field 'a' lacks a value in a list"},
           {"{\"a\": \"x\\u0000y\"}\n", "csv", "file:1: field 'a' has a byte of 0"},
           {"1 10000:1\n", "csv", "file:1: an index of 10000 or more"},
           {"\xff,b\nx,1\ny,2\n", "jsonl", "is no UTF-8, which the names of fields must be"},
           {"{\"a\": [[1]]}\n", "csv", "file:1: field 'a' is an array of other things"},
           {"{\"a\": 1}\nodd\n", "csv", "file:2: no JSON"},
           {"{\"a\": 1}\nodd\n", "jsonl", "file:2: no JSON"},
           {"a,b\n1,2\n1\n3,4\n", "jsonl", "file:3: 1 field instead of 2"}}) {
    const ToolOutcome said = Convert(text, to);
    EXPECT_EQ(said.code, kExitFailed) << words;
    EXPECT_THAT(said.err, HasSubstr(words));
    const bool is_there = std::filesystem::exists(dir_ + "/out");
    EXPECT_TRUE(!is_there || std::filesystem::is_empty(dir_ + "/out")) << words;
  }
  EXPECT_THAT(Convert("{\"a\": 1700000000.5}\n", "tfrecord").err, HasSubstr("field 'a' is rounded to the 32 bits"));
}

TEST_F(DataConvertTest, PartsArePackedAndOfBoundedSize) {
  std::string text = "a\n", all;
  for (int i = 0; i < 70000; ++i)
    absl::StrAppend(&text, i % 977, "\n"), absl::StrAppend(&all, "{\"a\": ", i % 977, "}\n");
  EXPECT_EQ(Converted(text, "jsonl"), all);
  for (const char* to : {"jsonl.gz", "jsonl.zst"}) {
    const ToolOutcome said = Convert(text, to, {"--records-per-file", "30000"});
    EXPECT_THAT(said.out, HasSubstr(absl::StrCat("/out/part-00002.", to, ": 10000 records\n")));
    for (const auto& file : std::filesystem::directory_iterator(dir_ + "/out")) {
      EXPECT_LT(std::filesystem::file_size(file), 120'000u);
    }
    // The copy of the same format is the same, whatever packs it.
    std::filesystem::rename(dir_ + "/out", dir_ + "/parts");
    const ToolOutcome back =
        RunDownpour({"data", "convert", dir_ + "/parts/*", "--to", "jsonl", "--out", dir_ + "/out"});
    EXPECT_EQ(back.code, kExitDone) << back.err;
    EXPECT_EQ(TextOf(dir_ + "/out/part-00000.jsonl"), all);
    std::filesystem::remove_all(dir_ + "/parts");
  }
}

TEST_F(DataConvertTest, RecordsOfTheSameFormatAreCopiedAsTheyStand) {
  const std::string nested = "{\"a\": {\"b\": [1, {\"c\": 2}]}}\r\n\n{ \"a\" :1.50}";
  EXPECT_EQ(Converted(nested, "jsonl"), "{\"a\": {\"b\": [1, {\"c\": 2}]}}\n{ \"a\" :1.50}\n");
}

TEST_F(DataConvertTest, RecordsThatCannotBeReadAreLeftOutUpToALimit) {
  for (const char* to : {"csv", "jsonl"}) {
    const ToolOutcome said = Convert("odd\n{\"a\": 1}\n[2]\n", to, {"--skip", "2", "--format", "jsonl"});
    EXPECT_EQ(said.code, kExitDone);
    EXPECT_THAT(said.err, HasSubstr("2 records left out, the first at " + dir_ + "/file:1: no JSON"));
    EXPECT_THAT(Convert("odd\n{\"a\": 1}\n[2]\n", to, {"--skip", "1", "--format", "jsonl"}).err,
                HasSubstr("more than 1 record cannot be read, which is all that --skip allows; the first: "));
  }
}

TEST_F(DataConvertTest, NothingIsOverwritten) {
  ASSERT_EQ(Convert("a\n1\n", "csv").code, kExitDone);
  const std::vector<std::string> again = {"data", "convert", dir_ + "/file", "--to", "jsonl", "--out", dir_ + "/out"};
  EXPECT_THAT(RunDownpour(again).err, HasSubstr("out/part-00000.csv is there already; name another folder"));
  std::filesystem::remove(dir_ + "/out/part-00000.csv");
  PutFile(dir_ + "/out/.part-00000.jsonl.part", "half");
  {
    const UniqueFd other(open((dir_ + "/out").c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
    EXPECT_THAT(RunDownpour(again).err, HasSubstr("another `data convert` writes there now"));
    EXPECT_TRUE(std::filesystem::exists(dir_ + "/out/.part-00000.jsonl.part")) << "it is another's";
  }
  PutFile(dir_ + "/out/.part-00007.csv.gz.part", "half");
  EXPECT_EQ(RunDownpour(again).code, kExitDone) << "what was abandoned gives way";
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/out/part-00000.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/out/.part-00007.csv.gz.part"));
  EXPECT_THAT(Convert("", "csv", {"--format", "jsonl"}).err, HasSubstr("the sources have no records"));
}

}  // namespace
}  // namespace downpour
