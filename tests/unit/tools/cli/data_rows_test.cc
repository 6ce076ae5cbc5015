// `downpour data rows`: rows by their numbers, for a program at the other ends of two pipes.
#include "tools/cli/data_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/exit_code.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class DataRowsTest : public testing::Test {
 protected:
  void SetUp() override { folder_.Write("a.csv", "age,job,income\n20,cook,low\n30,,high\n40,clerk,low\n"); }
  Json Data() const {
    return {{"format", "csv"},
            {"train", folder_.path() + "/a.csv"},
            {"columns", {{{"name", "age"}}, {{"name", "job"}, {"vocabulary", {"clerk", "cook"}}}}},
            {"label", {{"column", "income"}, {"classes", {"low", "high"}}}}};
  }
  static std::string Asked(const std::vector<uint64_t>& ids) {
    std::string text(4 + ids.size() * 8, '\0');
    const auto count = static_cast<uint32_t>(ids.size());
    std::memcpy(text.data(), &count, 4);
    if (!ids.empty()) std::memcpy(text.data() + 4, ids.data(), ids.size() * 8);
    return text;
  }
  // What comes behind the first line, which is put into said_.
  std::string Answers(const std::string& first, const std::string& questions, int code = kExitDone) {
    std::istringstream in(first + "\n" + questions);
    std::ostringstream out;
    EXPECT_EQ(AnswerRows(in, out), code);
    const std::string all = out.str();
    said_ = Json::parse(all.substr(0, all.find('\n')));
    return all.substr(all.find('\n') + 1);
  }
  std::string WhyNot(const Json& asked) {
    EXPECT_EQ(Answers(asked.dump(), "", kExitFailed), "");
    return said_.value("error", "");
  }

  ScratchFolder folder_;
  Json said_;
};

TEST_F(DataRowsTest, GivesEachRowThatIsAskedForInThatOrder) {
  const std::string answer = Answers(Json{{"data", Data()}}.dump(), Asked({2, 0, 2, 1}) + Asked({}));
  EXPECT_EQ(said_["rows"], 3);
  EXPECT_EQ(said_["hasLabel"], true);
  EXPECT_EQ(said_["blockExamples"], 128);
  EXPECT_EQ(said_["columns"][1], Json({{"name", "job"}, {"type", "int64"}, {"width", 1}, {"categories", 3}}));
  ASSERT_EQ(answer.size(), 4 + 4 * (4 + 8 + 8) + 4u);
  const float ages[] = {40, 20, 40, 30};
  const int64_t jobs[] = {0, 1, 0, 2}, incomes[] = {0, 0, 0, 1};
  EXPECT_EQ(answer.substr(0, 4), std::string(4, '\0'));
  EXPECT_EQ(std::memcmp(answer.data() + 4, ages, sizeof(ages)), 0);
  EXPECT_EQ(std::memcmp(answer.data() + 20, jobs, sizeof(jobs)), 0);
  EXPECT_EQ(std::memcmp(answer.data() + 52, incomes, sizeof(incomes)), 0);
  EXPECT_EQ(answer.substr(84), std::string(4, '\0')) << "no row was asked for";
}

TEST_F(DataRowsTest, LabelsMayBeNumbersOrMissing) {
  Json data = Data();
  data.erase("label");
  Answers(Json{{"data", data}}.dump(), "");
  EXPECT_EQ(said_["hasLabel"], false);
  EXPECT_EQ(said_["columns"].size(), 2u);
  data["label"] = "age";
  EXPECT_EQ(Answers(Json{{"data", data}, {"labelsAreNumbers", true}}.dump(), Asked({1})).substr(16),
            std::string("\0\0\xf0\x41", 4));
  EXPECT_EQ(said_["columns"][2]["type"], "float32");
}

TEST_F(DataRowsTest, LabelsMayBeSetsOfClasses) {
  folder_.Write("a.csv", "age,tags,spam,ad\n20,spam;ad,1,1\n30,,0,0\n40,ad,0,1\n");
  Json data = {{"format", "csv"}, {"train", folder_.path() + "/a.csv"}, {"columns", {{{"name", "age"}}}}};
  const float sets[] = {1, 1, 0, 0, 0, 1};
  const Json of_text = {{"column", "tags"}, {"multiple", true}, {"separator", ";"}, {"classes", {"spam", "ad"}}};
  for (const Json& label : {of_text, Json::array({"spam", "ad"})}) {
    data["label"] = label;
    const std::string answer = Answers(Json{{"data", data}}.dump(), Asked({0, 1, 2}));
    EXPECT_EQ(said_["columns"][1], Json({{"name", "label"}, {"type", "float32"}, {"width", 2}, {"categories", 0}}));
    ASSERT_EQ(answer.size(), 4 + 3 * (4 + 2 * 4u));
    EXPECT_EQ(std::memcmp(answer.data() + 16, sets, sizeof(sets)), 0) << label;
    EXPECT_THAT(WhyNot({{"data", data}, {"labelsAreNumbers", true}}), HasSubstr("data.label"));
  }
  data["label"] = {{"column", "tags"}, {"multiple", true}, {"separator", ";"}};
  EXPECT_THAT(WhyNot({{"data", data}}), HasSubstr("data.label.classes: is missing"));
  data["label"] = "spam";
  data["weight"] = "age";
  EXPECT_THAT(WhyNot({{"data", data}}), HasSubstr("data.weight: rows have no weights"));
}

TEST_F(DataRowsTest, ARowThatIsNotThereEndsNothing) {
  const std::string answer = Answers(Json{{"data", Data()}}.dump(), Asked({3}) + Asked({0}));
  uint32_t length = 0;
  std::memcpy(&length, answer.data(), 4);
  ASSERT_GT(length, 0u);
  EXPECT_THAT(answer.substr(4, length), HasSubstr("3"));
  EXPECT_EQ(answer.size(), 4 + length + 4 + 20);
}

TEST_F(DataRowsTest, SaysWhatIsWrongByItsKeyAndEnds) {
  Json data = Data();
  EXPECT_THAT(WhyNot(Json::array()), HasSubstr("the first line is no JSON with what is to be read"));
  EXPECT_THAT(WhyNot({{"data", 7}}), HasSubstr("must be"));
  EXPECT_THAT(WhyNot({{"data", {{"format", "python"}, {"trainExamples", 3}}}}),
              HasSubstr("data.format: python has no files"));
  EXPECT_THAT(WhyNot({{"data", data}, {"labelsAreNumbers", true}}),
              HasSubstr("labels that are numbers have no classes"));
  data["label"] = {{"column", "age"}, {"scale", {{"mean", 1}}}};
  EXPECT_THAT(WhyNot({{"data", data}}), HasSubstr("data.label.scale: is for labels that are numbers"));
  data["label"] = "agee";
  EXPECT_THAT(WhyNot({{"data", data}}), HasSubstr("agee"));
  data["columns"][0] = {{"name", "age"}, {"buckets", {3, 1}}};
  EXPECT_THAT(WhyNot({{"data", data}}), testing::StartsWith("data.columns.0.buckets"));
  data["columns"][0] = {{"name", "age"}};
  data["train"] = folder_.path() + "/none.csv";
  EXPECT_THAT(WhyNot({{"data", data}}), HasSubstr("none.csv"));
}

TEST_F(DataRowsTest, AQuestionThatIsCutShortOrTooLargeIsTheEnd) {
  const std::string first = Json{{"data", Data()}}.dump();
  EXPECT_EQ(Answers(first, Asked({0}).substr(0, 7)), "");
  EXPECT_EQ(Answers(first, std::string("\xff\xff\xff\xff", 4)), "") << "no memory is taken for it";
}

}  // namespace
}  // namespace downpour
