#include "data/jsonl_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/data/scan_records.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ScannedRecords Scan(const std::string& text, const std::vector<std::string>& wanted, DataSpec data = {}) {
  data.format = kJsonFormat;
  return ScanRecords(text, wanted, data);
}

std::string Wrong(const std::string& line, const std::string& field = "a") {
  const ScannedRecords scanned = Scan("{\"a\": 1}\n" + line + "\n{\"a\": 3}\n", {field});
  EXPECT_EQ(scanned.error, "");
  if (scanned.records.size() != 3) return "records: " + std::to_string(scanned.records.size());
  EXPECT_EQ(scanned.places[1], "source:2");
  EXPECT_EQ(scanned.records[2], "3") << "the next record can be read";
  return scanned.records[1];
}

TEST(JsonRecordsTest, ValuesHaveTheirTypes) {
  const ScannedRecords scanned = Scan(
      "\xef\xbb\xbf{\"i\": 9223372036854775807, \"d\": -2.5e3, \"t\": \"x\\n\\u00e4\\\"\", \"b\": true, \"n\": "
      "null}\r\n"
      "\n \t\n{\"b\": false, \"i\": -3, \"other\": [{}], \"d\": 1}",
      {"t", "i", "d", "b", "n"});
  EXPECT_THAT(scanned.records, ElementsAre("x\n\xc3\xa4\"|9223372036854775807|-2500|true|-", "-|-3|1|false|-"));
  EXPECT_THAT(scanned.places, ElementsAre("source:1", "source:4"));
}

TEST(JsonRecordsTest, NestedKeysAreNamedByTheirPath) {
  const std::string text = R"({"a": {"b": 1, "c": {"d": 2}}, "e.f": 3})"
                           "\n"
                           R"({"e": {"f": 4}, "a": {"c.d": 5}})"
                           "\n"
                           R"({"a": 7})";
  EXPECT_THAT(Scan(text, {"a.b", "a.c.d", "e.f"}).records, ElementsAre("1|2|3", "-|5|4", "-|-|-"));
}

TEST(JsonRecordsTest, ArraysOfNumbersAreLists) {
  EXPECT_THAT(Scan(R"({"a": [1, 2.5, null, true]})"
                   "\n"
                   R"({"a": []})"
                   "\n"
                   R"({"a": [7]})"
                   "\n"
                   R"({"a": [null]})",
                   {"a"})
                  .records,
              ElementsAre("[1 2.5 nan 1]", "-", "7", "-"));
  EXPECT_THAT(Wrong(R"({"a": [1, "x"]})"), HasSubstr("field 'a' is an array of other things than numbers"));
  EXPECT_THAT(Wrong(R"({"a": [[1]]})"), HasSubstr("field 'a' is an array of other things than numbers"));
}

TEST(JsonRecordsTest, ARecordThatCannotBeReadIsWrongAlone) {
  EXPECT_THAT(Wrong("{\"a\": NaN}"), HasSubstr("NaN and Infinity are none: write null"));
  EXPECT_THAT(Wrong("{\"a\": 1"), HasSubstr("no JSON: "));
  EXPECT_THAT(Wrong("{\"a\": 1} {\"a\": 2}"), HasSubstr("no JSON: "));
  EXPECT_THAT(Wrong("{\"a\": 1e999}"), HasSubstr("no JSON: "));
  EXPECT_THAT(Wrong("{\"a\": \"\xff\"}"), HasSubstr("no JSON: "));
  EXPECT_THAT(Wrong("[1, 2]"), HasSubstr("no JSON object"));
  EXPECT_THAT(Wrong("{\"a\": 1, \"b\": 2, \"a\": 1}"), HasSubstr("field 'a' stands twice"));
  EXPECT_THAT(Wrong("{\"a\": {\"b\": 2}}"), HasSubstr("is an object: name a field in it"));
  EXPECT_THAT(Wrong("{\"a\": " + std::string(5000, '[') + std::string(5000, ']') + "}"), HasSubstr("no JSON: "));
}

TEST(JsonRecordsTest, FieldsThatNoneOfTheFirstRecordsHasAreNamed) {
  const std::string text = "{\"age\": 1, \"x\": {\"y\": 2}}\n";
  EXPECT_THAT(Scan(text, {"agee"}).error, HasSubstr("source has no field 'agee'; did you mean age? (as its first"));
  EXPECT_THAT(Scan(text, {"x.z"}).error, HasSubstr("source has no field 'x.z'"));
  DataSpec data;
  data.columns = {{.name = "n", .from = {"agee"}, .fill = 0}};
  EXPECT_THAT(Scan(text, {"agee"}, data).records, ElementsAre("-"));
  EXPECT_THAT(Scan("", {"a"}).records, ElementsAre());
}

TEST(JsonRecordsTest, ALineWithoutEndIsRefused) {
  EXPECT_THAT(Scan("{\"a\": \"" + std::string(kMostRecord + 9, 'x'), {"a"}).error,
              HasSubstr("source:1: a record of more than 16 MiB"));
}

TEST(JsonRecordsTest, FileLooksLikeIt) {
  EXPECT_TRUE(LooksLikeJson("\xef\xbb\xbf \n{\"a\""));
  EXPECT_FALSE(LooksLikeJson("[1]"));
  EXPECT_FALSE(LooksLikeJson(""));
}

}  // namespace
}  // namespace downpour
