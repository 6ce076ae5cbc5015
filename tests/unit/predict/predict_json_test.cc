#include "predict/predict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/predict/made_predictor.h"

namespace downpour {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

class PredictJsonTest : public testing::Test {
 protected:
  static json Of(const Predictor& predictor, const std::string& body) {
    const auto answer = PredictJson(predictor, body);
    EXPECT_TRUE(answer.ok()) << answer.status() << " " << body;
    return json::parse(answer.ok() ? *answer : "null");
  }
  static std::string ErrorOf(const Predictor& predictor, const std::string& body, const JsonLimits& limits = {}) {
    return std::string(PredictJson(predictor, body, limits).status().message());
  }

  const std::shared_ptr<const Predictor> images_ = MadePredictor("json_images", SmallJob(), Diagonal, {.most_rows = 4});
  const std::shared_ptr<const Predictor> columns_ = MadePredictor("json_columns", JobWithColumns(), Counting);
};

TEST_F(PredictJsonTest, TakesRowsAsListsAndObjects) {
  const json all = Of(*images_, R"({"instances": [[0, 0, 255, 0], [[0, 0], [255, 0]], {"in": [0, 0, 255, 0.0]},
                                                  {"input": [[0], [0], [255], [0]]}], "signature_name": "any"})");
  ASSERT_EQ(all["predictions"].size(), 4u);
  for (const json& one : all["predictions"]) {
    EXPECT_EQ(one["class"], 2);
    EXPECT_EQ(one, all["predictions"][0]);
    ASSERT_EQ(one["probabilities"].size(), 3u);
    EXPECT_NEAR(one["probabilities"][2].get<double>(), 0.787, 1e-3);
  }
  EXPECT_EQ(Of(*images_, R"({"instances": []})"), json::parse(R"({"predictions": []})"));
}

TEST_F(PredictJsonTest, RowsOfNumbersHaveTheirWidthAndNothingElse) {
  for (const char* const body : {
           R"({"instances": [[1, 2, 3, 4], [1, 2, 3]]})",
           R"({"instances": [[1, 2, 3, 4, 5], [1, 2, 3]]})",
           R"({"instances": [[1, 2, 3, 4], []]})",
           R"({"instances": [[1, 2, 3, 4]]} x)",
           R"({"instances": [[1, 2, 3, 4]], "instances": [[1, 2, 3, 4]]})",
           R"({"instances": [[1, 2, 3, 4]],})",
           R"({"instances": [[1, 2, 3, 4],]})",
           R"({"instances": [[1, 2, 3, 4,]]})",
           R"({"instances": [[1, 2, 3, 04]]})",
           R"({"instances": [[1, 2, 3, 4]})",
           R"({"instances": [[1, 2, 3, 256]]})",
           R"({"instances": [[1, 2, 3, 1e400]]})",
           R"({"instances": [{"in": [0, 0, 0, 0], "in": [0, 0, 0, 0]}]})",
           R"({"instances": [{"in": [0, 0], "input": [0, 0]}]})",
           R"({"instances": [{}]})",
           R"({"instances": [[1, 2, 3, null]]})",
           R"({"instances": [[1, 2, 3, "4"]]})",
       }) {
    EXPECT_NE(ErrorOf(*images_, body), "") << body;
  }
}

TEST_F(PredictJsonTest, TakesColumnsAndAnswersColumns) {
  const json row = Of(*columns_, R"({"instances": [{"place": [1, 2, 3], "job": "cook", "age": 50},
                                                   {"job": null, "place": [1, 2, 3]}]})");
  const json by_columns =
      Of(*columns_, R"({"inputs": {"job": ["cook", null], "place": [[1, 2, 3], [1, 2, 3]], "age": [50, null]}})");
  ASSERT_EQ(by_columns["outputs"]["prediction"].size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(by_columns["outputs"]["prediction"][i], row["predictions"][i]["prediction"]);
  const json images = Of(*images_, R"({"inputs": [[255, 0, 0, 0], [0, 255, 0, 0]]})");
  EXPECT_EQ(images["outputs"]["class"], json({0, 1}));
  EXPECT_EQ(images["outputs"]["probabilities"][0].size(), 3u);
  EXPECT_EQ(Of(*images_, R"({"inputs": {"in": [[255, 0, 0, 0]]}})")["outputs"]["class"], json({0}));
}

TEST_F(PredictJsonTest, NamesRowAndColumn) {
  const auto of = [&](const std::string& row) {
    return ErrorOf(*columns_, R"({"instances": [{"place": [1, 2, 3]}, )" + row + "]}");
  };
  EXPECT_THAT(of(R"({"place": [1, 2]})"), HasSubstr("row 1: column 'place' has 2 numbers, where the model takes 3"));
  EXPECT_THAT(of(R"({"place": [1, 2, "3"]})"), HasSubstr("row 1: column 'place' has something else than numbers"));
  EXPECT_THAT(of(R"({"place": [1, 2, {}]})"), HasSubstr("row 1: column 'place' has something else than numbers"));
  EXPECT_THAT(of(R"({"place": {"b64": "AA=="}})"), HasSubstr("row 1: column 'place' is an object"));
  EXPECT_THAT(of(R"({"place": [1, 2, null]})"), HasSubstr("row 1: field 'place': 'nan' stands for a missing value"));
  EXPECT_THAT(of(R"({"place": [1, 2, 1e39]})"), HasSubstr("row 1: field 'place': '1e+39' is beyond"));
  EXPECT_THAT(of(R"({"age": 1})"), HasSubstr("row 1: column 'place' is missing"));
  EXPECT_THAT(of(R"({"place": [1, 2, 3], "agee": 3})"),
              HasSubstr("row 1: the model has no input 'agee'; did you mean"));
  EXPECT_THAT(of(R"({"place": [1, 2, 3], "zzz": 3})"), HasSubstr("row 1: the model has no input 'zzz': leave it out"));
  EXPECT_THAT(of(R"({"place": [1, 2, 3], "place": [1, 2, 3]})"), HasSubstr("row 1: column 'place' comes twice"));
  EXPECT_THAT(of(R"({"place": [1, 2, 3], "age": "old"})"), HasSubstr("row 1: field 'age': 'old' is no number"));
  EXPECT_THAT(of(R"({"place": [1, 2, 3], "age": [1, 2]})"), HasSubstr("row 1: field 'age': '[2 numbers]' is not what"));
  EXPECT_THAT(of("[1, 2, 3]"), AllOf(HasSubstr("row 1: is no object"), HasSubstr("write {\"age\"")));
  EXPECT_THAT(of("null"), HasSubstr("row 1: is no object"));
  EXPECT_EQ(of(R"({"place": [1, 2, 3], "job": [1, 2]})"), "row 1: field 'job' is a list: write one value");
  EXPECT_EQ(of(R"({"place": [1, 2, 3], "job": ["a", "b"]})"), "row 1: field 'job' is a list: write one value");
  EXPECT_EQ(of(R"({"place": [1, 2, 3], "pay": 3})"), "") << "the label may stand there";
  EXPECT_EQ(of(R"({"place": [true, false, 3], "job": "unknown to training"})"), "");
}

TEST_F(PredictJsonTest, NamesThePlaceOfWhatIsNoJson) {
  const auto of = [&](const std::string& value) {
    return ErrorOf(*columns_, R"({"instances": [{"place": [1, 2, 3]}, {"place": [1, 2, )" + value + "]}]}");
  };
  EXPECT_THAT(of("NaN"), HasSubstr("no JSON: instances[1].place[2]"));
  EXPECT_THAT(of("1e400"), HasSubstr("no JSON: instances[1].place[2]"));
  EXPECT_THAT(of("-Infinity"), HasSubstr("no JSON: instances[1].place[2]"));
  EXPECT_THAT(of("100000000000000000000"), HasSubstr("instances[1].place[2]: a whole number beyond 64 bits"));
  EXPECT_THAT(of("1, 2,"), HasSubstr("no JSON: instances[1].place"));
  EXPECT_THAT(of("\"\xff\""), HasSubstr("no JSON: instances[1].place[2]"));
  for (const char* const bad : {"", "{", "{\"instances\": [", "[", "\xff", "\"", "{\"instances\": [{]}", "nul"}) {
    EXPECT_THAT(ErrorOf(*columns_, bad), HasSubstr("no JSON: ")) << bad;
  }
}

TEST_F(PredictJsonTest, BoundsLevelsBytesAndRows) {
  for (const int levels : {16, 17, 20, 1000, 1'000'000}) {
    EXPECT_THAT(ErrorOf(*images_, "{\"instances\": " + Repeated("[", levels) + Repeated("]", levels) + "}"),
                HasSubstr("more than 16 levels"));
    EXPECT_THAT(ErrorOf(*images_, Repeated("{\"a\":", levels) + "1" + Repeated("}", levels)),
                HasSubstr("more than 16 levels"));
  }
  const auto long_one = PredictJson(*images_, "{\"instances\": [" + Repeated(" ", 200) + "]}", {.most_bytes = 100});
  EXPECT_EQ(long_one.status().code(), absl::StatusCode::kOutOfRange);
  const auto many = PredictJson(*images_, "{\"instances\": [" + Repeated("[0,0,0,0],", 1'000'000) + "[0,0,0,0]]}");
  EXPECT_EQ(many.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(many.status().message(), HasSubstr("more than 4 rows: send them in several requests"));
  EXPECT_THAT(ErrorOf(*images_, "{\"inputs\": {\"in\": [" + Repeated("[],", 100'000) + "[]]}}"),
              HasSubstr("more than 4 rows"));
  EXPECT_EQ(Of(*images_, R"({"instances": [[0, 0, 1, 0]]})")["predictions"][0]["class"], 2) << "and goes on";
}

TEST_F(PredictJsonTest, SaysWhatIsNoRequest) {
  const auto of = [&](const std::string& body) { return ErrorOf(*columns_, body); };
  EXPECT_THAT(of("[1]"), HasSubstr("write {\"instances\": [...]}"));
  EXPECT_THAT(of("{}"), HasSubstr("has no \"instances\""));
  EXPECT_THAT(of(R"({"rows": []})"), HasSubstr("the request has 'rows'"));
  EXPECT_THAT(of(R"({"instances": [], "inputs": []})"), HasSubstr("more than once"));
  EXPECT_THAT(of(R"({"instances": [], "instances": []})"), HasSubstr("more than once"));
  EXPECT_THAT(of(R"({"instances": {"age": 1}})"), HasSubstr("\"instances\" is no list"));
  EXPECT_THAT(of(R"({"inputs": 3})"), HasSubstr("\"inputs\" is no object of columns, and no list"));
  EXPECT_THAT(of(R"({"inputs": {"age": 3}})"), HasSubstr("column 'age' is no list"));
  EXPECT_THAT(of(R"({"inputs": {"age": [3], "place": []}})"), HasSubstr("column 'place' has 0 rows"));
  EXPECT_THAT(of(R"({"inputs": {"age": [3], "age": [3]}})"), HasSubstr("column 'age' comes twice"));
  EXPECT_THAT(of(R"({"inputs": {"age": [3, 4], "place": [[1, 2, 3], [1, 2]]}})"),
              HasSubstr("row 1: column 'place' has"));
  EXPECT_THAT(of(R"({"inputs": {"age": [3]}})"), HasSubstr("field 'place'"));
}

TEST_F(PredictJsonTest, EscapesTheWordsOfClasses) {
  const JobSpec job = JobOf("{inputs: [{name: x}], layers: [{name: out, dense: {units: 2}}]}",
                            "{format: jsonl, train: /nowhere/a, columns: [x], label: {column: y, classes: "
                            "['a \"b\"\\é', other]}}");
  const auto predictor = MadePredictor("words", job, Zero);
  EXPECT_EQ(Of(*predictor, R"({"instances": [3]})")["predictions"][0]["label"], "a \"b\"\\é");
}

// Class 1 is that the one class of the sets is in this one; its word is the first and only one.
TEST_F(PredictJsonTest, ASetOfOneClassHasNoWordForItsNumber) {
  const JobSpec job =
      JobOf("{inputs: [{name: x}], layers: [{name: out, dense: {units: 1}}], loss: sigmoidCrossEntropy}",
            "{format: jsonl, train: /nowhere/a, columns: [x], label: {column: tags, multiple: true, classes: [spam]}}");
  const auto predictor = MadePredictor("one_class", job, Counting);
  const json prediction = Of(*predictor, R"({"instances": [3]})")["predictions"][0];
  EXPECT_EQ(prediction["class"], 1);
  EXPECT_FALSE(prediction.contains("label"));
}

TEST_F(PredictJsonTest, SaysWhatTheModelTakes) {
  const json signature = json::parse(SignatureJson(columns_->signature()));
  EXPECT_EQ(signature["inputs"][0],
            json::parse(R"({"name":"age","type":"number","width":1,"needed":false,"default":40.0})"));
  EXPECT_EQ(signature["outputs"], json::parse(R"([{"name":"prediction","type":"number","width":1}])"));
}

}  // namespace
}  // namespace downpour
