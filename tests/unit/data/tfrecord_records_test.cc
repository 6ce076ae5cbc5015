#include "data/tfrecord_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/data/example_text.h"
#include "tests/unit/data/scan_records.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ScannedRecords Scan(const std::string& text, const std::vector<std::string>& wanted) {
  return ScanRecords(text, wanted, {.format = kTfRecordFormat});
}
std::string OneOf(const std::string& key, const std::string& feature) {
  return TfRecord(Example(Feature(key, feature)));
}
std::string Read(const std::string& example, const std::string& field = "a") {
  const ScannedRecords scanned = Scan(OneOf("a", Integers({1})) + TfRecord(example), {field});
  EXPECT_EQ(scanned.error, "");
  return scanned.records.size() == 2 ? scanned.records[1] : "records: " + std::to_string(scanned.records.size());
}

// Written by tensorflow 2.21: {"n": int64_list [1, -2], "w": bytes_list [b"hi"], "x": float_list [0.5]}.
TEST(TfRecordsTest, ValuesHaveTheirTypes) {
  const std::string first = TfRecord(Example(Feature("n", Integers({1, -2})) + Feature("w", Words({"hi"})) +
                                             Feature("x", Floats({0.5f})) + Feature("none", "")));
  const std::string second = TfRecord(
      Example(Feature("x", Floats({1, 2, 3})) + Feature("n", Integers({INT64_MIN})) + Feature("w", Words({}))));
  const ScannedRecords scanned = Scan(first + second, {"w", "x", "n", "none"});
  EXPECT_THAT(scanned.records, ElementsAre("hi|0.5|[1 -2]|-", "-|[1 2 3]|-9223372036854775808|-"));
  EXPECT_THAT(scanned.places, ElementsAre("source at byte 0", "source at byte " + std::to_string(first.size())));
}

TEST(TfRecordsTest, TheWireMayBeWrittenInAnyWay) {
  const std::string unpacked = Message(2, Varint(1 << 3 | 5) + Little(1.5f) + Message(1, Little(2.5f)));
  EXPECT_EQ(Read(Example(Feature("a", unpacked))), "[1.5 2.5]");
  EXPECT_EQ(Read(Example(Feature("a", Message(3, Varint(1 << 3) + Varint(7))))), "7");
  EXPECT_EQ(Read(Example(Feature("a", Integers({1}))) + Example(Feature("a", Integers({2})))), "2") << "the last holds";
  EXPECT_EQ(Read(Example(Feature("a", Floats({1, 2}) + Integers({3})))), "3") << "of one of several, the last holds";
  EXPECT_EQ(Read(Example(Feature("a", Integers({3}) + Integers({4})))), "[3 4]") << "messages are merged";
  const std::string unknown = Varint(9 << 3) + Varint(1) + Varint(9 << 3 | 1) + Little(1.0) + Message(9, "x");
  EXPECT_EQ(Read(unknown + Example(unknown + Feature("a", unknown + Integers({3})))), "3");
  EXPECT_EQ(Read(""), "-");
}

TEST(TfRecordsTest, WhatIsNoExampleIsWrongAlone) {
  const std::string no_example = "the record is no tf.train.Example";
  for (const std::string& example : {std::string("\x0a\x05x"), std::string("\xff"), std::string(11, '\xff'),
                                     std::string("\x0b"), std::string("\x02\x00", 2), Example("\x0a\x02\x0a")}) {
    EXPECT_THAT(Read(example), HasSubstr(no_example));
  }
  EXPECT_THAT(Read(Example(Feature("a", Message(2, Message(1, "abc"))))), HasSubstr(no_example)) << "no whole float";
  EXPECT_THAT(Read(Example(Feature("a", Message(3, Message(1, "\x80"))))), HasSubstr(no_example)) << "cut varint";
  EXPECT_THAT(Read(Example(Feature("a", Words({"x", "y"})))), HasSubstr("feature 'a' has 2 values of bytes"));
  EXPECT_THAT(Scan(OneOf("a", Integers({1})), {"b"}).error, HasSubstr("source has no field 'b'; it has a"));
}

TEST(TfRecordsTest, ChecksumsAreVerified) {
  const std::string good = OneOf("a", Integers({1}));
  std::string damaged = good;
  damaged[good.size() - 5] ^= 1;
  const ScannedRecords scanned = Scan(good + damaged + good, {"a"});
  EXPECT_THAT(scanned.records, ElementsAre("1", "the record's checksum is wrong: its data are damaged", "1"));
  damaged = good;
  damaged[0] ^= 1;
  EXPECT_THAT(Scan(good + damaged, {"a"}).error, HasSubstr("source at byte " + std::to_string(good.size()) +
                                                           ": the checksum of a record's length is wrong"));
  for (size_t cut : {size_t{1}, size_t{11}, size_t{12}, good.size() - 1}) {
    EXPECT_EQ(Scan(good + good.substr(0, cut), {"a"}).error,
              "source at byte " + std::to_string(good.size()) + ": the last record is cut short");
  }
  const std::string length = Little<uint64_t>(UINT64_MAX - 3);
  EXPECT_THAT(Scan(length + Masked(length) + good, {"a"}).error, HasSubstr("a record of 18446744073709551612 bytes"));
}

TEST(TfRecordsTest, PiecesOfTheFileDoNotShow) {
  std::string text;
  std::vector<std::string> expected;
  for (size_t length : {1u, 262'130u, 5u, 700'000u, 3u}) {
    expected.push_back(std::string(length, 'w'));
    text += OneOf("a", Words({expected.back()}));
  }
  EXPECT_EQ(Scan(text, {"a"}).records, expected);
}

TEST(TfRecordsTest, FileLooksLikeIt) {
  EXPECT_TRUE(LooksLikeTfRecord(OneOf("a", "").substr(0, 12)));
  EXPECT_FALSE(LooksLikeTfRecord(OneOf("a", "").substr(1)));
  EXPECT_FALSE(LooksLikeTfRecord("short"));
}

}  // namespace
}  // namespace downpour
