// Rows of any JSON, on their way to the user's code and back.
#include "predict/instance_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "predict/predict_json.h"

namespace downpour {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// Answers with what it is told to, or with what it was asked.
class Echo final : public Predictor, public InstancePredictor {
 public:
  explicit Echo(size_t most_rows = 3) : most_rows_(most_rows) {}
  absl::StatusOr<Json> PredictInstances(std::string_view instances, size_t count) const override {
    asked = instances;
    counted = count;
    return answer.is_null() ? Json::parse(instances) : answer;
  }
  absl::Status AnswerExample() const override { return absl::AbortedError("the example"); }
  absl::StatusOr<OutputBatch> Predict(const InputBatch&) const override { return absl::InternalError(""); }
  const InstancePredictor* instances() const override { return this; }
  const Signature& signature() const override { return signature_; }
  const std::string& model_name() const override { return name_; }
  const std::string& origin() const override { return name_; }
  size_t most_rows() const override { return most_rows_; }
  uint64_t bytes_held() const override { return 0; }

  Json answer;
  mutable std::string asked;
  mutable size_t counted = 0;

 private:
  const size_t most_rows_;
  Signature signature_;
  std::string name_;
};

std::string AnswerTo(const Echo& echo, const std::string& body) {
  const absl::StatusOr<std::string> answer = PredictJson(echo, body);
  return answer.ok() ? *answer : std::string(answer.status().message());
}

TEST(InstanceJsonTest, InstancesGoAsTheyAreAndComeBackByRows) {
  const Echo echo;
  EXPECT_EQ(AnswerTo(echo, R"({"instances": [ {"a": [1, null]}, "x", 2.5]})"),
            R"({"predictions":[{"a":[1,null]},"x",2.5]})");
  EXPECT_EQ(echo.asked, R"([{"a":[1,null]},"x",2.5])");
  EXPECT_EQ(echo.counted, 3);
  EXPECT_EQ(AnswerTo(echo, R"({"instances": []})"), R"({"predictions":[]})");
}

TEST(InstanceJsonTest, ColumnsBecomeInstancesAndPredictionsColumns) {
  Echo echo;
  EXPECT_EQ(AnswerTo(echo, R"({"inputs": {"a\"": [1, 2], "b": [[3], [4]]}})"),
            R"({"outputs":{"a\"":[1,2],"b":[[3],[4]]}})");
  EXPECT_EQ(echo.asked, R"([{"a\"":1,"b":[3]},{"a\"":2,"b":[4]}])");
  EXPECT_EQ(AnswerTo(echo, R"({"inputs": [5, 6]})"), R"({"outputs":[5,6]})");
  echo.answer = Json::parse(R"([{"a": 1}, {"b": 1}])");
  EXPECT_EQ(AnswerTo(echo, R"({"inputs": [5, 6]})"), R"({"outputs":[{"a":1},{"b":1}]})") << "not alike";
}

TEST(InstanceJsonTest, WhatIsNoRequestIsRefused) {
  const Echo echo;
  EXPECT_EQ(AnswerTo(echo, R"({"instances": {"a": [1]}})"), "\"instances\" is no list");
  EXPECT_THAT(AnswerTo(echo, R"({"inputs": {"a": 1}})"), HasSubstr("column 'a' is no list"));
  EXPECT_THAT(AnswerTo(echo, R"({"inputs": {"a": [1], "b": [1, 2]}})"), HasSubstr("column 'b' has 2 rows"));
  EXPECT_THAT(AnswerTo(echo, R"({"inputs": {"a": [1, 2], "b": [1]}})"), HasSubstr("column 'b' has 1 row"));
  EXPECT_TRUE(absl::IsOutOfRange(PredictJson(echo, R"({"instances": [1, 2, 3, 4]})").status()));
  EXPECT_TRUE(absl::IsOutOfRange(PredictJson(echo, R"({"inputs": {"a": [1, 2, 3, 4]}})").status()));
  EXPECT_EQ(echo.asked, "");
}

TEST(InstanceJsonTest, ANameIsNotRepeatedWithoutABound) {
  std::string ones = "1";
  for (int i = 1; i < 65536; ++i) ones += ",1";
  const std::string name(1 << 20, 'n');
  const absl::Status status = PredictJson(Echo(65536), "{\"inputs\": {\"" + name + "\": [" + ones + "]}}").status();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  const std::vector<int64_t> values(65536, 1);
  const InputBatch batch{65536, {{name, 1, absl::MakeConstSpan(values)}}};
  EXPECT_TRUE(absl::IsOutOfRange(InstancesOf(batch).status()));
}

TEST(InstanceJsonTest, AnAnswerHasAPredictionForEachRow) {
  Echo echo;
  for (const char* answer : {"[1]", "[1, 2, 3]", "{}", "7"}) {
    echo.answer = Json::parse(answer);
    EXPECT_EQ(AnswerTo(echo, R"({"instances": [1, 2]})"), "the Python code does not answer with 2 predictions");
  }
}

TEST(InstanceJsonTest, ALineIsAnsweredByALine) {
  const Echo echo;
  EXPECT_EQ(PredictJsonLine(echo, R"({"a": "ü\n"})").value(), R"({"a":"ü\n"})");
  EXPECT_TRUE(absl::IsInvalidArgument(PredictJsonLine(echo, "{").status()));
  EXPECT_EQ(WarmUp(echo), absl::AbortedError("the example"));
}

TEST(InstanceJsonTest, TensorsBecomeInstancesOfTheirShape) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<int64_t> user = {7, -8};
  InputBatch batch{2, {{"x", 4, absl::MakeConstSpan(x), {2, 2}}, {"user", 1, absl::MakeConstSpan(user)}}};
  EXPECT_EQ(*InstancesOf(batch), R"([{"x":[[1.0,2.0],[3.0,4.0]],"user":7},{"x":[[5.0,6.0],[7.0,8.0]],"user":-8}])");
  batch.columns.pop_back();
  batch.columns.front().name = "input";
  EXPECT_EQ(*InstancesOf(batch), "[[[1.0,2.0],[3.0,4.0]],[[5.0,6.0],[7.0,8.0]]]");
  const std::vector<std::string_view> words = {"a", "\"b"};
  EXPECT_EQ(*InstancesOf({1, {{"w", 2, absl::MakeConstSpan(words)}}}), R"([{"w":["a","\"b"]}])");
}

TEST(InstanceJsonTest, PredictionsBecomeTensorsWhereTheyAre) {
  const auto batch = BatchOf(Json::parse(R"([{"p": [0.5, 1], "c": 3, "w": "x"}, {"p": [2, 3], "c": true, "w": "y"}])"));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(std::get<std::vector<float>>(batch->Find("p")->values), ElementsAre(0.5f, 1, 2, 3));
  EXPECT_EQ(batch->Find("p")->width, 2);
  EXPECT_THAT(std::get<std::vector<int64_t>>(batch->Find("c")->values), ElementsAre(3, 1));
  EXPECT_THAT(std::get<std::vector<std::string_view>>(batch->Find("w")->values), ElementsAre("x", "y"));
  EXPECT_EQ(BatchOf(Json::parse("[[1], [2]]"))->Find("predictions")->width, 1);
  const auto large = BatchOf(Json::parse("[18446744073709551615, 0.5]"));
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_THAT(std::get<std::vector<float>>(large->Find("predictions")->values),
              ElementsAre(18446744073709551616.0f, 0.5));
  for (const char* wrong :
       {"[[1], [1, 2]]", R"([1, "x"])", "[null]", R"([{"a": 1}, {"b": 1}])", "[1e300]", "[18446744073709551615]"}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(BatchOf(Json::parse(wrong)).status())) << wrong;
  }
}

}  // namespace
}  // namespace downpour
