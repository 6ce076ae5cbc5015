// Columns of keys: what fields of each format become, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "data/columns.h"
#include "data/dataset.h"
#include "data/key_items.h"
#include "tests/unit/data/example_text.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::string_view_literals;

constexpr int64_t N = kNoKey;

ColumnSpec Keys(int64_t width = 1, bool is_text = false) {
  ColumnSpec spec;
  spec.name = "k";
  spec.from = {"x"};
  spec.kind = ColumnKind::kKey;
  spec.numbers = width;
  spec.key_is_text = is_text;
  return spec;
}

int64_t Hash(std::string_view word) { return static_cast<int64_t>(HashWord(word)); }

struct Outcome {
  std::vector<int64_t> keys;
  std::string error;
};

Outcome Of(const ColumnSpec& column, FieldValue field, char decimal = '.') {
  DataSpec data;
  data.columns = {column};
  data.label.column = "y";
  data.decimal = decimal;
  const ColumnReader reader(data);
  std::vector<ColumnValues> values = reader.Room(2);  // the second one's, so that rows are told apart
  const FieldValue fields[] = {std::move(field), "0"sv};
  const absl::Status taken = reader.Take(fields, 1, &values);
  if (!taken.ok()) return {{}, std::string(taken.message())};
  const auto& all = std::get<std::vector<int64_t>>(values[0]);
  return {{all.begin() + column.numbers, all.end()}, ""};
}

int64_t KeyOf(FieldValue field) {
  const Outcome outcome = Of(Keys(), std::move(field));
  EXPECT_EQ(outcome.error, "");
  return outcome.keys.empty() ? N : outcome.keys[0];
}

TEST(KeyColumnsTest, AWholeNumberIsItsOwnKey) {
  EXPECT_EQ(KeyOf("0"sv), 0);
  EXPECT_EQ(KeyOf("-7"sv), -7);
  EXPECT_EQ(KeyOf("+7"sv), 7);
  EXPECT_EQ(KeyOf("9223372036854775807"sv), INT64_MAX);
  EXPECT_EQ(KeyOf("-9223372036854775807"sv), INT64_MIN + 1);
  EXPECT_EQ(KeyOf("9223372036854775809"sv), INT64_MIN + 1) << "the same 64 bits";
  EXPECT_EQ(KeyOf("18446744073709551615"sv), -1);
  EXPECT_EQ(KeyOf(uint64_t{18446744073709551615u}), -1);
  EXPECT_EQ(KeyOf(int64_t{-3}), -3);
  EXPECT_EQ(KeyOf(12.0), 12);
  EXPECT_EQ(KeyOf("12.0"sv), 12) << "as pandas writes integers of which one is missing";
  EXPECT_EQ(KeyOf(true), 1);
  EXPECT_THAT(Of(Keys(), "12,0"sv, ',').keys, ElementsAre(12));
}

TEST(KeyColumnsTest, WhatIsMissingGivesNoKey) {
  for (const FieldValue& nothing : {FieldValue(), FieldValue(""sv), FieldValue("?"sv), FieldValue(std::nan(""))}) {
    EXPECT_THAT(Of(Keys(), nothing).keys, ElementsAre(N));
    EXPECT_THAT(Of(Keys(2, true), nothing).keys, ElementsAre(N, N));
  }
}

TEST(KeyColumnsTest, ATextIsHashedForEver) {
  EXPECT_THAT(Of(Keys(1, true), "Private"sv).keys, ElementsAre(int64_t{0x6d52d60fbc7bdbc5}));
  EXPECT_THAT(Of(Keys(1, true), int64_t{12}).keys, ElementsAre(Hash("12")));
  EXPECT_THAT(Of(Keys(1, true), 12.0).keys, ElementsAre(Hash("12")));
  EXPECT_THAT(Of(Keys(1, true), uint64_t{18446744073709551615u}).keys, ElementsAre(Hash("18446744073709551615")));
}

TEST(KeyColumnsTest, ACrossIsOneKey) {
  DataSpec data;
  data.columns = {Keys(1, true)};
  data.columns[0].from = {"p", "q"};
  data.label.column = "y";
  const ColumnReader reader(data);
  std::vector<ColumnValues> values = reader.Room(1);
  const FieldValue fields[] = {"Private"sv, "Male"sv, "0"sv};
  ASSERT_TRUE(reader.Take(fields, 0, &values).ok());
  EXPECT_THAT(std::get<std::vector<int64_t>>(values[0]), ElementsAre(int64_t{0x3da52d83b25c8826}));
  EXPECT_THAT(KeyWidthsOf(data), IsEmpty());
}

TEST(KeyColumnsTest, WhatIsNoKeyIsNamedWithTheRemedy) {
  EXPECT_EQ(Of(Keys(), "ab"sv).error,
            "field 'x': 'ab' is no key, which is a whole number of 64 bits: give column 'k' key: text, or leave such "
            "records out by data.skip");
  for (const FieldValue& number : {FieldValue(0.5), FieldValue(1e300), FieldValue("1e300"sv), FieldValue("0x1"sv),
                                   FieldValue("18446744073709551616"sv), FieldValue("1 2"sv)}) {
    EXPECT_THAT(Of(Keys(), number).error, HasSubstr("is no key, which is a whole number of 64 bits"));
  }
  for (const FieldValue& number : {FieldValue("-9223372036854775808"sv), FieldValue(INT64_MIN),
                                   FieldValue("9223372036854775808"sv), FieldValue(uint64_t{1} << 63)}) {
    EXPECT_THAT(Of(Keys(), number).error, HasSubstr("is -2^63 in 64 bits, the one number that is no key"));
  }
  const std::vector<double> list = {1, 2};
  EXPECT_THAT(Of(Keys(2), FieldList(list)).error, HasSubstr("'[2 numbers]' is no key"));
  EXPECT_THAT(Of(Keys(2, true), FieldList(list)).error, HasSubstr("'[2 numbers]' are no texts or whole numbers"));
}

TEST(KeyColumnsTest, SeveralKeysArePaddedAndAreNoMoreThanTheWidth) {
  KeyItems items({.most = 3});
  for (const FieldItem& item : {FieldItem("5"sv), FieldItem(""sv), FieldItem(int64_t{-6})}) items.Add(item);
  EXPECT_THAT(Of(Keys(3), items.value()).keys, ElementsAre(5, -6, N)) << "what stands for nothing is none";
  EXPECT_THAT(Of(Keys(3, true), items.value()).keys, ElementsAre(Hash("5"), Hash("-6"), N));
  for (int64_t i = 0; i < 1000; ++i) items.Add(i);
  EXPECT_EQ(std::get<FieldItems>(items.value()).size(), 4u) << "one that is too many, and no more memory";
  EXPECT_EQ(Of(Keys(3), items.value()).error,
            "field 'x' has more than 3 keys: give column 'k' a larger width, or leave such records out by data.skip");
  items.Clear();
  EXPECT_THAT(Of(Keys(2), items.value()).keys, ElementsAre(N, N));
}

// A file of each format, read as a set of a job.
class KeyFilesTest : public testing::Test {
 protected:
  Outcome Read(const char* format, const std::string& text, const std::vector<ColumnSpec>& columns,
               const std::string& label = "y") const {
    folder_.Write("a", text);
    DataSpec data;
    data.format = format;
    data.columns = columns;
    data.label.column = label;
    const auto opened = OpenDataset(data, {"", "", {folder_.path() + "/a"}});
    if (!opened.ok()) return {{}, std::string(opened.status().message())};
    EXPECT_EQ((*opened)->columns()[0], (Column{"k", ColumnType::kInt64, columns[0].numbers, 0}));
    std::vector<uint64_t> ids((*opened)->size());
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = ids.size() - 1 - i;
    ColumnValues values;
    const size_t first = 0;
    const absl::Status read = (*opened)->ReadBatch(ids, {&first, 1}, {&values, 1});
    if (!read.ok()) return {{}, std::string(read.message())};
    return {std::get<std::vector<int64_t>>(values), ""};
  }

  ScratchFolder folder_;
};

TEST_F(KeyFilesTest, CsvHasOneKeyInAField) {
  EXPECT_THAT(Read(kCsvFormat, "x,y\n7,1\n,0\n-1,1\n", {Keys()}).keys, ElementsAre(-1, N, 7));
  EXPECT_THAT(Read(kCsvFormat, "x,y\na,1\nb,0\n", {Keys(1, true)}).keys, ElementsAre(Hash("b"), Hash("a")));
  EXPECT_THAT(Read(kCsvFormat, "x,y\n7,1\n1.5,0\n", {Keys()}).error, HasSubstr("/a:3: field 'x': '1.5' is no key"));
}

TEST_F(KeyFilesTest, JsonHasNumbersTextsAndArraysOfThem) {
  const std::string text =
      "{\"x\": [1, \"2\", null, 18446744073709551615], \"y\": 0}\n{\"x\": 9223372036854775806, \"y\": 1}\n"
      "{\"x\": [], \"y\": 0}\n{\"y\": 0}\n{\"x\": [9223372036854775807], \"y\": 0}\n";
  EXPECT_THAT(Read(kJsonFormat, text, {Keys(3)}).keys,
              ElementsAre(INT64_MAX, N, N, N, N, N, N, N, N, INT64_MAX - 1, N, N, 1, 2, -1))
      << "no key goes through a double";
  EXPECT_THAT(Read(kJsonFormat, "{\"x\": [\"a\", 7], \"y\": 0}\n", {Keys(2, true)}).keys,
              ElementsAre(Hash("a"), Hash("7")));
  EXPECT_THAT(Read(kJsonFormat, "{\"x\": [1, 2.5], \"y\": 0}\n", {Keys(2)}).error,
              HasSubstr("/a:1: field 'x' is an array of other things than whole numbers and texts"));
  EXPECT_THAT(Read(kJsonFormat, "{\"x\": [1, 2, 3], \"y\": 0}\n", {Keys(2)}).error, HasSubstr("/a:1: field 'x' has"));
}

TEST_F(KeyFilesTest, TfRecordHasIntegersAndTexts) {
  const auto example = [](const std::string& feature) {
    return TfRecord(Example(Feature("x", feature) + Feature("y", Integers({1}))));
  };
  const std::string text =
      example(Integers({INT64_MAX, -5})) + example(Words({"12"})) + example("") + example(Words({}));
  EXPECT_THAT(Read(kTfRecordFormat, text, {Keys(2)}).keys, ElementsAre(N, N, N, N, 12, N, INT64_MAX, -5));
  EXPECT_THAT(Read(kTfRecordFormat, example(Words({"a", "b"})), {Keys(2, true)}).keys,
              ElementsAre(Hash("a"), Hash("b")));
  EXPECT_THAT(Read(kTfRecordFormat, example(Floats({1, 2})), {Keys(2)}).error, HasSubstr("'[2 numbers]' is no key"));
}

TEST_F(KeyFilesTest, LibsvmHasTheIndicesOfALine) {
  ColumnSpec indices = Keys(3);
  indices.from = {"indices"};
  EXPECT_THAT(Read(kLibsvmFormat, "1 0:1 7:1 900000000000:1\n0\n1 5:0 6:1\n", {indices}, "label").keys,
              ElementsAre(6, N, N, N, N, N, 0, 7, 900000000000));
  EXPECT_THAT(Read(kLibsvmFormat, "1 1:1 2:1 3:1 4:1\n", {indices}, "label").error, HasSubstr("has more than 3 keys"));
  EXPECT_THAT(Read(kLibsvmFormat, "1 1:1\n0 2:0.5\n", {indices}, "label").error,
              HasSubstr("/a:2: index 2 has the value 0.5, but field indices takes 0 and 1 alone"));
  EXPECT_THAT(Read(kLibsvmFormat, "1 9223372036854775808:1\n", {indices}, "label").error, HasSubstr("is -2^63"));
  indices.from = {"features"};
  EXPECT_THAT(Read(kLibsvmFormat, "1 1:1\n", {indices}, "label").error, HasSubstr("keys are in field indices"));
  indices.from = {"17"};
  EXPECT_THAT(Read(kLibsvmFormat, "1 17:5\n", {indices}, "label").keys, ElementsAre(5, N, N));
}

TEST(KeyColumnsTest, AListOfALabelsClassesKeepsEachWord) {
  DataSpec data;
  data.columns = {Keys(3)};
  data.label = {.column = "tags", .is_multiple = true};
  const std::vector<std::string> wanted = {"x", "tags"};
  std::vector<KeyItems> items = KeyItemsFor(KeyWidthsOf(data), wanted);
  for (KeyItems& of_field : items) {
    for (const std::string_view word : {"NA"sv, "a"sv, "b"sv}) of_field.Add(word);
  }
  EXPECT_EQ(std::get<FieldItems>(items[0].value()).size(), 2u) << "NA is no key";
  EXPECT_EQ(std::get<FieldItems>(items[1].value()).size(), 3u) << "but maybe a class";
}

}  // namespace
}  // namespace downpour
