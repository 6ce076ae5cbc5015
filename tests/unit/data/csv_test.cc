#include "data/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/data/text_source.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Record = std::vector<std::string>;

struct Read {
  std::vector<Record> records;
  std::vector<std::string> places;
  std::string error;
};

Read ReadAll(const std::string& text, char separator = ',') {
  const TextSource source(text);
  CsvReader reader(source, separator);
  Read read;
  std::vector<std::string_view> fields;
  for (;;) {
    const absl::StatusOr<bool> more = reader.Next(&fields);
    if (!more.ok()) read.error = std::string(more.status().message());
    if (!more.ok() || !*more) return read;
    read.records.emplace_back(fields.begin(), fields.end());
    read.places.push_back(reader.place());
  }
}

TEST(CsvReaderTest, FieldsAreTrimmedAndRecordsEndWithLines) {
  EXPECT_THAT(ReadAll("39, State-gov ,\n\n 50,,x\r\nlast,\"\",1").records,
              ElementsAre(Record{"39", "State-gov", ""}, Record{"50", "", "x"}, Record{"last", "", "1"}));
  EXPECT_THAT(ReadAll("\xef\xbb\xbfname\n").records, ElementsAre(Record{"name"}));
  EXPECT_THAT(ReadAll("a\t\tb c", '\t').records, ElementsAre(Record{"a", "", "b c"}));
  EXPECT_THAT(ReadAll("").records, ElementsAre());
  EXPECT_THAT(ReadAll("\n\n  \n").records, ElementsAre());
  EXPECT_THAT(ReadAll("\"\"\n\"\"").records, ElementsAre(Record{""}, Record{""})) << "quoted, it is a value";
}

TEST(CsvReaderTest, QuotedFieldsKeepWhatTheyHave) {
  EXPECT_THAT(ReadAll("\" a, b \",\"say \"\"so\"\"\", \"two\nlines\" \n5\" disk,\"\"\"\"\n").records,
              ElementsAre(Record{" a, b ", "say \"so\"", "two\nlines"}, Record{"5\" disk", "\""}));
}

TEST(CsvReaderTest, PlacesAreLinesWhereRecordsBegin) {
  EXPECT_THAT(ReadAll("a\n\n\"b\nc\"\nd").places, ElementsAre("source:1", "source:3", "source:5"));
}

TEST(CsvReaderTest, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_EQ(ReadAll("a\n\"b,c\n").error, "source:2: a quote is not closed");
  EXPECT_EQ(ReadAll("a\n\"b\"c\n").error, "source:2: 'c' stands behind a closing quote");
  EXPECT_EQ(ReadAll(std::string("a\0b", 3)).error,
            "source: is no text in UTF-8: byte 1 is 0; if a spreadsheet wrote it, as UTF-16, save it as CSV in UTF-8");
  EXPECT_EQ(ReadAll("a\n" + std::string(200'000, ',')).error,
            "source:2: more than 131072 fields: is this the separator?");
  EXPECT_THAT(ReadAll("a\n\"" + std::string(40'000'000, 'x')).error,
              HasSubstr("source:2: a record of more than 16 MiB"));
}

// The pieces in which a file is read end anywhere, within quotes and line ends too.
TEST(CsvReaderTest, RecordsAcrossPiecesAreWhole) {
  std::string text;
  std::vector<Record> expected;
  for (int i = 0; i < 60'000; ++i) {
    const std::string filler(static_cast<size_t>(i % 37), 'x');
    absl::StrAppend(&text, i, ",\"", filler, "\"\"\n\",", filler, "\r\n");
    expected.push_back({absl::StrCat(i), filler + "\"\n", filler});
  }
  EXPECT_TRUE(ReadAll(text).records == expected);
}

// A line that is as long as the first piece that is read: what follows begins the next one.
TEST(CsvReaderTest, WhatBeginsAFileMeansNothingWithinIt) {
  const std::string first = std::string((size_t{1} << 18) - 1, 'x') + "\n";
  EXPECT_EQ(ReadAll(first + "\xef\xbb\xbfy\n").records.back(), Record{"\xef\xbb\xbfy"});
  EXPECT_EQ(ReadAll(first + "sep=;\n").records.back(), Record{"sep=;"});
  EXPECT_THAT(ReadAll(first + std::string(1, 0)).error, HasSubstr("byte 262144 is 0"));
  const std::string quoted = "\"" + std::string((size_t{1} << 18) - 2, 'x');
  EXPECT_EQ(ReadAll(quoted + "\"\"y\"\n").records, std::vector<Record>{Record{quoted.substr(1) + "\"y"}});
  EXPECT_EQ(ReadAll("a,b\r").records, std::vector<Record>{(Record{"a", "b"})}) << "a line's end that was cut";
}

CsvDialect GuessOf(const std::string& text) { return GuessCsvDialect(TextSource(text)).value(); }

TEST(CsvDialectTest, TheSeparatorIsTheOneByWhichRecordsAgree) {
  EXPECT_EQ(GuessOf("1,2,3\n4,5,6\n").separator, ',');
  EXPECT_EQ(GuessOf("1,5;2,5\n3,5;4,5\n7;8,5\n").separator, ';');
  EXPECT_EQ(GuessOf("a, b\tc\nd\te\n").separator, '\t');
  EXPECT_EQ(GuessOf("1|2\n3|4\n").separator, '|');
  EXPECT_EQ(GuessOf("1;\"2\"x,3\n4;\"5\"x,6\n").separator, ',') << "by semicolons it is none";
  EXPECT_EQ(GuessOf("1,2\n1,2,3\n").fields, 3u) << "of equals the more";
  EXPECT_EQ(GuessOf("1\n2\n").fields, 1u);
  EXPECT_EQ(GuessOf("").fields, 0u);
  EXPECT_EQ(GuessOf("|1x3 Cross validator\n25, Private, 226802\n38, Private, 89814\n").fields, 3u);
}

TEST(CsvDialectTest, NamesHaveNoNumbers) {
  EXPECT_TRUE(GuessOf("age,work\n39,State-gov\n").has_header);
  EXPECT_FALSE(GuessOf("39,State-gov\n50,Private\n").has_header);
  EXPECT_TRUE(GuessOf("class,cap\ne,x\np,x\n").has_header);
  EXPECT_FALSE(GuessOf("1:2 a\n1:3 b\n1:4 c\n").has_header) << "nothing comes twice";
  EXPECT_FALSE(GuessOf("e,x\np,x\ne,b\n").has_header);
  EXPECT_FALSE(GuessOf("e,x\n").has_header) << "nothing tells";
}

TEST(CsvFieldTest, Numbers) {
  EXPECT_EQ(NumberIn("1e3"), 1000);
  EXPECT_EQ(NumberIn("+.5"), 0.5);
  for (const char* text : {"", "1,5", "0x10", "inf", "nan", "1e999", "1 2", "--1", "+-1"}) {
    EXPECT_EQ(NumberIn(text), std::nullopt) << text;
  }
  EXPECT_EQ(IntegerIn("-7"), -7);
  for (const char* text : {"", "7.0", "9223372036854775808", " 7"}) EXPECT_EQ(IntegerIn(text), std::nullopt) << text;
  EXPECT_TRUE(IsMissing("NA") && IsMissing("") && IsMissing("?") && !IsMissing("0"));
}

// What std::from_chars says, which rounds to the nearest double.
std::optional<double> NearestTo(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_one = error == std::errc() && end == text.data() + text.size() && std::isfinite(number);
  return is_one ? std::optional(number) : std::nullopt;
}

TEST(CsvFieldTest, NumbersAreTheNearestDoubles) {
  std::vector<std::string> texts = {"",   "-",   ".",     "-.",  "-0",   "0.0", "-0.0", ".5", "5.",  "-.25", "1.2.3",
                                    "1-", "--1", "00012", "1e5", "1E-7", "0x1", "1,5",  " 1", "+-1", "+7.5"};
  std::mt19937_64 draw(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = draw() % 3 == 0 ? "-" : "";
    const size_t digits = draw() % 20, point = draw() % 22;
    for (size_t at = 0; at < digits; ++at) absl::StrAppend(&text, at == point ? "." : "", draw() % 10);
    texts.push_back(text);
  }
  for (const std::string& text : texts) {
    const std::optional<double> number = NumberIn(text), nearest = NearestTo(text);
    ASSERT_EQ(number.has_value(), nearest.has_value()) << text;
    if (!number) continue;
    ASSERT_EQ(std::bit_cast<uint64_t>(*number), std::bit_cast<uint64_t>(*nearest)) << text;
  }
}

}  // namespace
}  // namespace downpour
