#include "data/columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace downpour {
namespace {

using testing::HasSubstr;
using namespace std::string_view_literals;

ColumnSpec Number(std::string name) {
  ColumnSpec spec;
  spec.name = std::move(name);
  spec.from = {"x"};
  return spec;
}

// The value of the one column, or the error.
struct Outcome {
  double value = 0;
  std::string error;
};

// Where TakeTexts takes a row, it is as Take does.
void ExpectTheSameOfTexts(const ColumnReader& reader, const std::vector<FieldValue>& fields, const absl::Status& taken,
                          const std::vector<ColumnValues>& values) {
  std::vector<std::string_view> texts;
  for (const FieldValue& field : fields) {
    if (const auto* text = std::get_if<std::string_view>(&field)) texts.push_back(*text);
  }
  if (texts.size() != fields.size()) return;
  std::vector<ColumnValues> of_texts = reader.Room(1);
  std::vector<FieldValue> scratch(fields.size());
  if (!reader.TakeTexts(texts, absl::MakeSpan(scratch), 0, &of_texts)) return;
  EXPECT_TRUE(taken.ok()) << taken;
  EXPECT_EQ(of_texts, values);
}

Outcome Of(const ColumnSpec& column, std::vector<FieldValue> fields) {
  DataSpec data;
  data.columns = {column};
  data.label.column = "y";
  const ColumnReader reader(data);
  fields.emplace_back("0"sv);
  std::vector<ColumnValues> values = reader.Room(1);
  const absl::Status taken = reader.Take(fields, 0, &values);
  ExpectTheSameOfTexts(reader, fields, taken, values);
  if (!taken.ok()) return {0, std::string(taken.message())};
  return {std::visit([](const auto& all) { return static_cast<double>(all[0]); }, values[0]), ""};
}

double ValueOf(const ColumnSpec& column, FieldValue field) {
  const Outcome outcome = Of(column, {field});
  EXPECT_EQ(outcome.error, "");
  return outcome.value;
}

TEST(ColumnsTest, ANumberIsFilledClippedLoggedAndScaledInThisOrder) {
  ColumnSpec spec = Number("n");
  EXPECT_EQ(ValueOf(spec, "2.5"sv), 2.5);
  EXPECT_EQ(ValueOf(spec, int64_t{-3}), -3);
  EXPECT_EQ(ValueOf(spec, 0.5), 0.5);
  spec.fill = 100;
  spec.least = -5;
  spec.most = 10;
  EXPECT_EQ(ValueOf(spec, "?"sv), 10) << "what is filled is clipped";
  EXPECT_EQ(ValueOf(spec, std::nan("")), 10);
  EXPECT_EQ(ValueOf(spec, FieldValue()), 10);
  EXPECT_EQ(ValueOf(spec, "-7"sv), -5);
  spec.log = true;
  EXPECT_EQ(ValueOf(spec, "-7"sv), static_cast<float>(-std::log1p(5.0)));
  spec.mean = 1;
  spec.deviation = 2;
  EXPECT_EQ(ValueOf(spec, "3"sv), static_cast<float>((std::log1p(3.0) - 1) / 2));
}

TEST(ColumnsTest, BucketsHaveWhatIsBelowTheirBoundary) {
  ColumnSpec spec = Number("b");
  spec.kind = ColumnKind::kBuckets;
  spec.boundaries = {0, 10};
  EXPECT_EQ(ValueOf(spec, "-0.5"sv), 0);
  EXPECT_EQ(ValueOf(spec, "0"sv), 1);
  EXPECT_EQ(ValueOf(spec, "9.9"sv), 1);
  EXPECT_EQ(ValueOf(spec, "10"sv), 2);
}

TEST(ColumnsTest, AVocabularyHasThePlacesOfWordsAndOneForAllOthers) {
  ColumnSpec spec = Number("v");
  spec.kind = ColumnKind::kVocabulary;
  spec.vocabulary = {"a", "NA", "3"};
  EXPECT_EQ(ValueOf(spec, "NA"sv), 1) << "a word, though elsewhere it stands for nothing";
  EXPECT_EQ(ValueOf(spec, int64_t{3}), 2);
  EXPECT_EQ(ValueOf(spec, 3.0), 2);
  EXPECT_EQ(ValueOf(spec, "b"sv), 3);
  EXPECT_EQ(ValueOf(spec, "?"sv), 3);
  EXPECT_EQ(ValueOf(spec, FieldValue()), 3);
}

// Models that were trained go by these numbers, so that no version may change them. They are Python's
// xxhash.xxh3_64_intdigest(b"word", seed).
TEST(ColumnsTest, HashesAreForEver) {
  EXPECT_EQ(HashWord(""), 0x2d06800538d394c2u);
  EXPECT_EQ(HashWord("Private"), 0x6d52d60fbc7bdbc5u);
  EXPECT_EQ(HashWord("Male", HashWord("Private")), 0x3da52d83b25c8826u);
  RunningHash running;
  running.Add("Pri");
  running.Add("vate");
  EXPECT_EQ(running.Value(), HashWord("Private"));
}

TEST(ColumnsTest, ACrossKnowsWhereWordsEnd) {
  ColumnSpec spec = Number("h");
  spec.kind = ColumnKind::kHash;
  spec.hash = 1'000'003;
  EXPECT_EQ(ValueOf(spec, "Private"sv), static_cast<double>(HashWord("Private") % 1'000'003));
  EXPECT_EQ(ValueOf(spec, "NA"sv), ValueOf(spec, ""sv)) << "what is missing is the empty word";
  EXPECT_EQ(ValueOf(spec, FieldValue()), ValueOf(spec, ""sv));
  EXPECT_EQ(ValueOf(spec, 12.0), ValueOf(spec, "12"sv));
  spec.from = {"p", "q"};
  EXPECT_EQ(Of(spec, {"a"sv, "b"sv}).value, static_cast<double>(HashWord("b", HashWord("a")) % 1'000'003));
  EXPECT_NE(Of(spec, {"ab"sv, "c"sv}).value, Of(spec, {"a"sv, "bc"sv}).value);
  EXPECT_NE(Of(spec, {"a"sv, ""sv}).value, Of(spec, {""sv, "a"sv}).value);
}

TEST(ColumnsTest, WhatIsNoNumberIsNamedWithTheRemedy) {
  EXPECT_EQ(Of(Number("n"), {"ab\x1b"
                             "c"sv})
                .error,
            "field 'x': 'ab?c' is no number: make column 'n' a vocabulary or a hash, leave such records out by "
            "data.skip, or say what stands before fractions by data.decimal");
  EXPECT_EQ(
      Of(Number("n"), {"NA"sv}).error,
      "field 'x': 'NA' stands for a missing value: give column 'n' a default, or leave such records out by data.skip");
  EXPECT_THAT(Of(Number("n"), {"1e300"sv}).error, HasSubstr("is beyond what a float holds: clip column 'n'"));
  EXPECT_THAT(Of(Number("n"), {std::numeric_limits<double>::infinity()}).error, HasSubstr("'inf' is no number"));
}

Outcome LabelOf(const LabelSpec& label, FieldValue field) {
  DataSpec data;
  data.label = label;
  const ColumnReader reader(data);
  std::vector<ColumnValues> values = reader.Room(1);
  const absl::Status taken = reader.Take({&field, 1}, 0, &values);
  if (!taken.ok()) return {0, std::string(taken.message())};
  return {std::visit([](const auto& all) { return static_cast<double>(all[0]); }, values[0]), ""};
}

TEST(ColumnsTest, LabelsAreClassesOrNumbers) {
  const LabelSpec words{"y", {{"<=50K", "<=50K."}, {">50K", ">50K."}}, false};
  EXPECT_EQ(LabelOf(words, ">50K."sv).value, 1);
  EXPECT_EQ(LabelOf(words, "50K"sv).error,
            "field 'y': '50K' is no word of data.label.classes: add it to a class, or leave such records out by "
            "data.skip");
  const LabelSpec classes{"y", {}, false};
  EXPECT_EQ(LabelOf(classes, "7"sv).value, 7);
  EXPECT_EQ(LabelOf(classes, "7.0"sv).value, 7) << "as pandas writes integers of which one is missing";
  EXPECT_EQ(LabelOf(classes, "999999"sv).value, 999'999);
  for (const FieldValue& wrong :
       std::vector<FieldValue>{"-1"sv, "0.5"sv, "1e30"sv, "?"sv, "1000000"sv, int64_t{1} << 32, FieldValue()}) {
    EXPECT_THAT(LabelOf(classes, wrong).error, HasSubstr("is no class from 0 to 999999"));
  }
  const LabelSpec number{.column = "y", .is_number = true};
  EXPECT_EQ(LabelOf(number, "-0.5"sv).value, -0.5);
  EXPECT_THAT(LabelOf(number, ""sv).error, HasSubstr("is no number to be learned"));
}

// The label's numbers, and the error.
std::pair<std::vector<float>, std::string> SetOf(const DataSpec& data, const std::vector<FieldValue>& fields) {
  const ColumnReader reader(data);
  std::vector<ColumnValues> values = reader.Room(2);
  std::get<std::vector<float>>(values[0]).assign(2 * static_cast<size_t>(data.label.outputs), 7);
  const absl::Status taken = reader.Take(fields, 1, &values);
  const auto& floats = std::get<std::vector<float>>(values[0]);
  return {{floats.begin() + data.label.outputs, floats.end()}, std::string(taken.message())};
}

TEST(ColumnsTest, ALabelMayBeASetOfClasses) {
  DataSpec data;
  data.label = {.column = "y", .is_multiple = true, .outputs = 3};
  EXPECT_EQ(ColumnReader(data).columns().back(), (Column{kLabelColumn, ColumnType::kFloat, 3}));
  const auto set = [&](const FieldValue& value) { return SetOf(data, {value}).first; };
  const auto error = [&](const FieldValue& value) { return SetOf(data, {value}).second; };
  const FieldItem numbers[] = {int64_t{2}, uint64_t{0}, int64_t{2}};
  EXPECT_EQ(set(FieldItems(numbers)), (std::vector<float>{1, 0, 1}));
  EXPECT_EQ(set(int64_t{1}), (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(set(FieldValue()), (std::vector<float>{0, 0, 0})) << "an empty list";
  EXPECT_EQ(error(FieldValue()), "");
  EXPECT_EQ(set(""sv), (std::vector<float>{0, 0, 0}));
  const FieldItem beyond[] = {int64_t{1}, int64_t{3}};
  EXPECT_THAT(error(FieldItems(beyond)), HasSubstr("field 'y': '3' is no class from 0 to 2"));
  EXPECT_THAT(error("0;1"sv), HasSubstr("'0;1' is no class"));
  data.label.separator = ';';
  EXPECT_EQ(set("0; 2;"sv), (std::vector<float>{1, 0, 1}));
  EXPECT_THAT(error("0;x"sv), HasSubstr("'x' is no class"));
  data.label.classes = {{"spam"}, {"NA", "none"}, {"3"}};
  EXPECT_EQ(set("3.0;none"sv), (std::vector<float>{0, 1, 1}));
  EXPECT_EQ(set("NA;spam"sv), (std::vector<float>{1, 1, 0})) << "a word of a class is not missing";
  EXPECT_EQ(set("?"sv), (std::vector<float>{0, 0, 0}));
  const FieldItem words[] = {"NA"sv, "?"sv, "spam"sv};
  EXPECT_EQ(set(FieldItems(words)), (std::vector<float>{1, 1, 0}));
  EXPECT_THAT(error("ham"sv), HasSubstr("field 'y': 'ham' is no word of data.label.classes"));
}

TEST(ColumnsTest, EachClassOfASetMayHaveAFieldOfItsOwn) {
  DataSpec data;
  data.label = {.of_outputs = {"a", "b"}, .outputs = 2};
  EXPECT_EQ(ColumnReader(data).fields(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(SetOf(data, {"1"sv, 0.0}).first, (std::vector<float>{1, 0}));
  EXPECT_EQ(SetOf(data, {false, true}).first, (std::vector<float>{0, 1}));
  for (const FieldValue& wrong : std::vector<FieldValue>{"0.5"sv, "yes"sv, ""sv, FieldValue(), int64_t{2}}) {
    EXPECT_THAT(SetOf(data, {int64_t{0}, wrong}).second, HasSubstr("field 'b': "));
    EXPECT_THAT(SetOf(data, {int64_t{0}, wrong}).second, HasSubstr("is neither 0 nor 1"));
  }
}

TEST(ColumnsTest, AWeightIsANumberFromZeroOn) {
  DataSpec data;
  data.label.column = "y";
  data.weight = "w";
  const ColumnReader reader(data);
  EXPECT_EQ(reader.columns().back(), (Column{kWeightColumn, ColumnType::kFloat}));
  const auto taken = [&](const FieldValue& weight) {
    std::vector<ColumnValues> values = reader.Room(1);
    const FieldValue fields[] = {int64_t{0}, weight};
    const absl::Status status = reader.Take(fields, 0, &values);
    return std::pair(std::get<std::vector<float>>(values[1])[0], std::string(status.message()));
  };
  EXPECT_EQ(taken("2.5"sv), std::pair(2.5f, std::string()));
  EXPECT_EQ(taken(0.0), std::pair(0.0f, std::string()));
  EXPECT_EQ(taken(true).first, 1);
  for (const FieldValue& wrong :
       std::vector<FieldValue>{"-1"sv, "x"sv, 1e39, -1e-9, std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(taken(wrong).second, HasSubstr("field 'w': "));
    EXPECT_THAT(taken(wrong).second, HasSubstr("is no weight, which is a number from 0 to 3.4e38"));
  }
  for (const FieldValue& missing : std::vector<FieldValue>{""sv, "NaN"sv, std::nan(""), FieldValue()}) {
    EXPECT_THAT(taken(missing).second, HasSubstr("stands for a missing weight"));
  }
  data.label = {};
  EXPECT_TRUE(ColumnReader(data).columns().empty()) << "what is asked of a model has none";
}

TEST(ColumnsTest, AListOfNumbersHasTheColumnsWidth) {
  DataSpec data;
  data.columns = {Number("n")};
  data.columns[0].numbers = 3;
  data.columns[0].mean = 1;
  data.label.column = "y";
  const auto taken = [&](const FieldValue& value) {
    const ColumnReader reader(data);
    std::vector<ColumnValues> values = reader.Room(2);
    const FieldValue fields[] = {value, int64_t{0}};
    const absl::Status status = reader.Take(fields, 1, &values);
    const auto& floats = std::get<std::vector<float>>(values[0]);
    EXPECT_EQ(floats.size(), 6u);
    return status.ok() ? std::vector<float>(floats.begin() + 3, floats.end()) : std::vector<float>();
  };
  const double list[] = {1, std::nan(""), 3, 4};
  EXPECT_EQ(taken(FieldList(list, 3)), std::vector<float>()) << "one is missing";
  data.columns[0].fill = 7;
  EXPECT_EQ(taken(FieldList(list, 3)), (std::vector<float>{0, 6, 2}));
  EXPECT_EQ(taken(FieldValue()), (std::vector<float>{6, 6, 6}));
  EXPECT_EQ(taken(FieldList(list, 4)), std::vector<float>());
  EXPECT_EQ(taken(5.0), std::vector<float>());
  EXPECT_THAT(Of(Number("n"), {FieldList(list)}).error,
              HasSubstr("field 'x': '[4 numbers]' is not what column 'n' takes, whose width is 1"));
  const double large = 1e300;
  EXPECT_THAT(Of(Number("n"), {FieldList(&large, 1)}).error, HasSubstr("'1e+300' is beyond what a float holds"));
}

TEST(ColumnsTest, ATruthIsANumberAndAWord) {
  EXPECT_EQ(ValueOf(Number("n"), true), 1);
  ColumnSpec words = Number("v");
  words.kind = ColumnKind::kVocabulary;
  words.vocabulary = {"false", "true"};
  EXPECT_EQ(ValueOf(words, true), 1);
}

TEST(ColumnsTest, LabelsThatAreNumbersAreComparedAsSuch) {
  DataSpec data;
  data.label = {.column = "y", .classes = {{"-1"}, {"+1"}, {"one"}}};
  const ColumnReader reader(data);
  std::vector<ColumnValues> values = reader.Room(1);
  const auto class_of = [&](const FieldValue& value) -> int64_t {
    return reader.Take({&value, 1}, 0, &values).ok() ? std::get<std::vector<int64_t>>(values[0])[0] : -1;
  };
  for (const FieldValue& one :
       {FieldValue("1"sv), FieldValue("+1"sv), FieldValue("1.0"sv), FieldValue(int64_t{1}), FieldValue(1.0)}) {
    EXPECT_EQ(class_of(one), 1);
  }
  EXPECT_EQ(class_of("-1e0"sv), 0);
  EXPECT_EQ(class_of("one"sv), 2);
  EXPECT_EQ(class_of("2"sv), -1);
}

TEST(ColumnsTest, EachFieldIsAskedForOnce) {
  DataSpec data;
  data.columns = {Number("n"), Number("m")};
  data.columns[1].from = {"z"};
  data.columns.push_back(Number("o"));
  data.label = {"z", {{"a"}, {"b"}}, false};
  const ColumnReader reader(data);
  EXPECT_EQ(reader.fields(), (std::vector<std::string>{"x", "z"}));
  EXPECT_EQ(reader.columns().back(), (Column{"label", ColumnType::kInt64, 1, 2}));
  EXPECT_EQ(reader.columns().size(), 4u);
}

TEST(ColumnsTest, TextsAreTakenAsAllElseIs) {
  DataSpec data;
  data.columns = {Number("plain"), Number("scaled"), Number("hashed"), Number("word"),
                  Number("cross"), Number("old"),    Number("key")};
  data.columns[1].least = -2;
  data.columns[1].deviation = 3;
  data.columns[1].fill = 7;
  data.columns[2].kind = ColumnKind::kHash;
  data.columns[2].hash = 1000;
  data.columns[3].kind = ColumnKind::kVocabulary;
  data.columns[3].vocabulary = {"1", "NA", "x"};
  data.columns[4].kind = ColumnKind::kHash;
  data.columns[4].hash = 77;
  data.columns[4].from = {"x", "z"};
  data.columns[5].kind = ColumnKind::kBuckets;
  data.columns[5].boundaries = {0, 5};
  data.columns[6].kind = ColumnKind::kKey;
  data.columns[6].key_is_text = true;
  data.label.column = "y";
  data.label.is_number = true;
  data.weight = "w";
  const ColumnReader reader(data);
  ASSERT_EQ(reader.fields().size(), 4u);
  const std::string_view texts[] = {"1", "-3.25", "", "NA", "x", "1e3", "1e99", "0", "+4", "?", "-0"};
  size_t quick = 0;
  for (const std::string_view x : texts) {
    for (const std::string_view z : texts) {
      for (const std::string_view y : texts) {
        const std::vector<FieldValue> fields = {x, z, y, z};
        std::vector<ColumnValues> values = reader.Room(1);
        const absl::Status taken = reader.Take(fields, 0, &values);
        ExpectTheSameOfTexts(reader, fields, taken, values);
        std::vector<FieldValue> scratch(4);
        std::vector<ColumnValues> of_texts = reader.Room(1);
        quick += reader.TakeTexts(std::vector{x, z, y, z}, absl::MakeSpan(scratch), 0, &of_texts);
      }
    }
  }
  EXPECT_GT(quick, 100u) << "most rows are nothing special";
}

}  // namespace
}  // namespace downpour
