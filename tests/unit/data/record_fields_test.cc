#include "data/record_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/field_word.h"
#include "tests/unit/data/example_text.h"
#include "tests/unit/data/text_source.h"

namespace downpour {
namespace {

std::string Word(const FieldValue& value) {
  FieldWordBuffer buffer;
  return std::string(FieldWord(value, &buffer));
}

TEST(RecordFieldsTest, NumbersAreWrittenShortest) {
  EXPECT_EQ(Word(3.0), "3");
  EXPECT_EQ(Word(-0.0), "0");
  EXPECT_EQ(Word(0.1), "0.1");
  EXPECT_EQ(Word(double{0.1f}), "0.1");
  EXPECT_EQ(Word(1e300), "1e+300");
  EXPECT_EQ(Word(INT64_MIN), "-9223372036854775808");
  EXPECT_EQ(Word(false), "false");
  EXPECT_EQ(Word(std::monostate()), "");
  const std::vector<double> list(784);
  EXPECT_EQ(Word(FieldList(list)), "[784 numbers]");
}

TEST(RecordFieldsTest, ALineWithNothingOnItIsNoRecord) {
  EXPECT_EQ(CutLine("ab", false).bytes, 0u);
  EXPECT_EQ(CutLine("ab", true).bytes, 2u);
  EXPECT_EQ(CutLine("ab\nc", false).bytes, 3u);
  EXPECT_FALSE(CutLine(" \t\r\nc", false).is_record);
  EXPECT_FALSE(CutLine(" # c\n", false, '#').is_record);
  EXPECT_TRUE(CutLine(" # c\n", false).is_record);
}

TEST(RecordFieldsTest, FormatsAreGuessedByTheBeginning) {
  const auto guess = [](const std::string& text) { return GuessRecordFormat(TextSource(text)).value(); };
  EXPECT_EQ(guess("{\"a\": 1}\n"), kJsonFormat);
  EXPECT_EQ(guess("+1 3:1 11:1\n"), kLibsvmFormat);
  EXPECT_EQ(guess(TfRecord("")), kTfRecordFormat);
  EXPECT_EQ(guess("a,b\n1,2\n"), kCsvFormat);
  EXPECT_EQ(guess(""), kCsvFormat);
}

}  // namespace
}  // namespace downpour
