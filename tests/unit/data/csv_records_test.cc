#include "data/csv_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "job/data_formats.h"
#include "tests/unit/data/scan_records.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DataSpec Fields(std::vector<std::string> fields, std::optional<bool> header = std::nullopt) {
  DataSpec data;
  data.fields = std::move(fields);
  data.header = header;
  return data;
}

// All that CSV has is text.
ScannedRecords Scan(const std::string& text, const std::vector<std::string>& wanted, DataSpec data = {}) {
  data.format = kCsvFormat;
  return ScanRecords(text, wanted, data,
                     [](const FieldValue& value) { return std::string(std::get<std::string_view>(value)); });
}

TEST(CsvRecordsTest, WantedFieldsComeInTheOrderInWhichTheyAreWanted) {
  const ScannedRecords scanned = Scan(
      "\xef\xbb\xbf"
      "age, job ,sex\n39, clerk ,m\r\n\n50,\"a, \"\"b\"\"\",f\n7,,m",
      {"sex", "job"});
  EXPECT_THAT(scanned.records, ElementsAre("m|clerk", "f|a, \"b\"", "m|"));
  EXPECT_THAT(scanned.places, ElementsAre("source:2", "source:4", "source:5"));
}

TEST(CsvRecordsTest, AFieldsNameIsItsOwn) {
  EXPECT_EQ(Scan("a,b,a\n1,2,3\n", {"b"}).error, "");
  EXPECT_EQ(Scan("a,b,a\n1,2,3\n", {"a"}).error,
            "source: two fields are called 'a': give all fields names of their own in data.fields, with data.header: "
            "true");
  EXPECT_THAT(Scan("a,b,a\n1,2,3\n", {"z"}, Fields({"x", "y", "z"}, true)).records, ElementsAre("3"));
}

TEST(CsvRecordsTest, LinesThatEndWithCrAloneAreNamed) {
  for (const char* text : {"a,b\r1,2\r3,4\r", "a\r1\r"}) {
    EXPECT_THAT(Scan(text, {"a"}).error, HasSubstr("source: its lines end with CR alone")) << text;
  }
  EXPECT_EQ(Scan("a,b\r\n1,2\r\n", {"a"}).error, "");
  EXPECT_EQ(Scan("a,b\n\"x\ry\",2\n", {"a"}).error, "");
  EXPECT_EQ(Scan("\"x\r\ny\",2", {"c1"}).error, "") << "one record";
}

TEST(CsvRecordsTest, ALineEndInQuotesCutsNoRecord) {
  const ScannedRecords scanned = Scan("a;b\n\"x\ny\";1\n5\" disk;2\n  \n\"\";3\n", {"a", "b"});
  EXPECT_THAT(scanned.records, ElementsAre("x\ny|1", "5\" disk|2", "|3"));
  EXPECT_THAT(scanned.places, ElementsAre("source:2", "source:4", "source:6"));
}

TEST(CsvRecordsTest, FieldsAreNamedByTheSpecTheHeaderOrTheirPlaces) {
  EXPECT_THAT(Scan("1,2\n3,4\n", {"c1"}).records, ElementsAre("2", "4"));
  EXPECT_THAT(Scan("1,2\n3,4\n", {"y"}, Fields({"x", "y"})).records, ElementsAre("2", "4"));
  EXPECT_THAT(Scan("p,q\n3,4\n", {"y"}, Fields({"x", "y"}, true)).records, ElementsAre("4"));
  EXPECT_THAT(Scan("p,q\n3,4\n", {"c0"}, Fields({}, false)).records, ElementsAre("p", "3"));
  EXPECT_EQ(Scan("p,q\n3,4\n", {"P_"}).error, "source has no field 'P_'; did you mean p?");
  EXPECT_EQ(Scan("p,q\n3,4\n", {"other"}).error, "source has no field 'other'; it has p, q");
  EXPECT_EQ(Scan("p,q\n", {"q"}).error,
            "source has 'q' in its first record, which was not taken for the fields' names; if it has them, say "
            "data.header: true");
  EXPECT_EQ(Scan("p,q\n", {"q"}, Fields({}, true)).error, "");
  EXPECT_EQ(Scan("p,q\n3,4\n", {"x"}, Fields({"x"})).error,
            "source: most records have 2 fields, but data.fields names 1");
}

TEST(CsvRecordsTest, WhatStandsBeforeAHeaderIsNoRecord) {
  EXPECT_THAT(Scan("made by hand\np,q\n3,4\n5,6\n", {"q"}).records, ElementsAre("4", "6"));
  EXPECT_THAT(Scan("sep=;\n1;2\n3;4\n", {"c0"}).places, ElementsAre("source:2", "source:3"));
}

TEST(CsvRecordsTest, ARecordWithAnotherNumberOfFieldsIsWrongAlone) {
  EXPECT_THAT(Scan("1,2\n3\n4,5,\"6\"\n7,8\n9,10\n11,12\n", {"c1"}).records,
              ElementsAre("2", "1 field instead of 2, which most records have",
                          "3 fields instead of 2, which most records have", "8", "10", "12"));
}

TEST(CsvRecordsTest, WhereRecordsEndMustBeKnown) {
  std::string text;
  for (int i = 0; i < 300; ++i) absl::StrAppend(&text, i, ",2\n");
  EXPECT_EQ(Scan(text + "\"open,3\n", {"c0"}).error, "source:301: a quote is not closed");
  EXPECT_THAT(Scan(text + "\"" + std::string(kMostRecord + 100, 'x') + "\",1", {"c0"}).error,
              HasSubstr("source:301: a record of more than 16 MiB"));
}

// Records that end where a piece of the file does, and that are longer than one.
TEST(CsvRecordsTest, PiecesOfTheFileDoNotShow) {
  std::string text;
  std::vector<std::string> expected;
  for (size_t length : {1u, 262'130u, 5u, 700'000u, 3u}) {
    const std::string word(length, 'w');
    absl::StrAppend(&text, "1,", word, "\r\n2,\"", word, "\n\"\n");
    expected.push_back(word);
    expected.push_back(word + "\n");
  }
  EXPECT_EQ(Scan(text, {"c1"}).records, expected);
}

TEST(CsvRecordsTest, FilesOfCriteoHaveNamesAndMissingValues) {
  std::string row = "1\t-2\t";
  for (int i = 2; i <= 13; ++i) absl::StrAppend(&row, i == 3 ? "" : absl::StrCat(i), "\t");
  for (int i = 1; i <= 26; ++i) {
    absl::StrAppend(&row, i == 2 ? "" : absl::StrCat("0000000", i % 10), i < 26 ? "\t" : "\n");
  }
  DataSpec data;
  data.format = kCriteoFormat;
  const auto scan = [&](const std::string& text, const std::vector<std::string>& wanted) {
    return ScanRecords(text, wanted, data,
                       [](const FieldValue& value) { return std::string(std::get<std::string_view>(value)); });
  };
  EXPECT_THAT(scan(row + row, {"label", "I1", "I3", "I13", "C1", "C2", "C26"}).records,
              ElementsAre("1|-2||13|00000001||00000006", "1|-2||13|00000001||00000006"));
  EXPECT_THAT(scan(row.substr(2), {"I1", "C26"}).records, ElementsAre("-2|00000006")) << "as tests have it";
  EXPECT_THAT(scan("1\t2\t3\n", {"I1"}).error, HasSubstr("source is none of Criteo's files"));
  EXPECT_THAT(scan("", {"I1"}).error, HasSubstr("source is none of Criteo's files"));
}

}  // namespace
}  // namespace downpour
