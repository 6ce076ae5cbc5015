#include "service/open_inference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace downpour {
namespace {

using nlohmann::json;

// Two inputs; one output of numbers, one of texts. It answers with the sums of each row's numbers.
class SummingPredictor final : public Predictor {
 public:
  absl::StatusOr<OutputBatch> Predict(const InputBatch& batch) const override {
    OutputBatch answer{.rows = batch.rows};
    std::vector<float> sums(batch.rows);
    for (const InputColumn& column : batch.columns) Add(column, &sums);
    std::vector<std::string_view> words(batch.rows, "word");
    answer.columns.push_back({.name = "sum", .width = 1, .values = sums});
    answer.columns.push_back({.name = "word", .width = 1, .values = words});
    return answer;
  }
  const Signature& signature() const override { return signature_; }
  const std::string& model_name() const override { return name_; }
  const std::string& origin() const override { return name_; }
  size_t most_rows() const override { return 100; }
  uint64_t bytes_held() const override { return 0; }

 private:
  static void Add(const InputColumn& column, std::vector<float>* sums) {
    std::visit(
        [&](const auto& values) {
          for (size_t i = 0; i < values.size(); ++i) {
            float& sum = (*sums)[i / static_cast<size_t>(column.width)];
            using Value = std::decay_t<decltype(values[0])>;
            if constexpr (std::is_arithmetic_v<Value>) sum += static_cast<float>(values[i]);
            if constexpr (std::is_same_v<Value, std::string_view>) sum += static_cast<float>(values[i].size());
          }
        },
        column.values);
  }
  const Signature signature_ = {.inputs = {{.name = "x", .width = 2}, {.name = "t", .kind = InputKind::kText}},
                                .outputs = {{.name = "sum"}, {.name = "word", .kind = OutputKind::kText}}};
  const std::string name_ = "summing";
};

json Tensor(const std::string& name, const char* type, json shape, json data) {
  return {{"name", name}, {"datatype", type}, {"shape", std::move(shape)}, {"data", std::move(data)}};
}

absl::StatusOr<InferAnswer> Ask(const json& inputs, const std::string& tail = "", json more = json::object()) {
  more["inputs"] = inputs;
  const std::string head = more.dump();
  const bool has_tail = !tail.empty();
  return Infer(SummingPredictor(), {.model = "m", .version = "v"}, head + tail,
               has_tail ? std::optional(head.size()) : std::nullopt);
}

json SumsOf(const absl::StatusOr<InferAnswer>& answer) {
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? json::parse(answer->body)["outputs"][0]["data"] : json();
}

TEST(OpenInferenceTest, TakesNumbersOfEachDatatype) {
  for (const char* type : {"FP16", "FP32", "FP64", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT64"}) {
    EXPECT_EQ(SumsOf(Ask({Tensor("x", type, {2, 2}, {1, 2, 3, 4})})), (json{3.0, 7.0})) << type;
    EXPECT_EQ(SumsOf(Ask({Tensor("x", type, {2, 2}, {{1, 2}, {3, 4}})})), (json{3.0, 7.0})) << type;
  }
  EXPECT_EQ(SumsOf(Ask({Tensor("x", "BOOL", {1, 2}, {true, true})})), (json{2.0}));
  EXPECT_EQ(SumsOf(Ask({Tensor("t", "BYTES", {2}, {"one", "three"})})), (json{3.0, 5.0}));
  EXPECT_EQ(SumsOf(Ask({Tensor("x", "FP32", {1, 2}, {1, 2}), Tensor("t", "BYTES", {1, 1}, {"four"})})), (json{7.0}));
}

TEST(OpenInferenceTest, TakesBytesBehindTheJson) {
  const auto ask = [](const char* type, json shape, const std::string& bytes) {
    const json tensor = {
        {"name", "x"}, {"datatype", type}, {"shape", shape}, {"parameters", {{"binary_data_size", bytes.size()}}}};
    return Ask({tensor}, bytes);
  };
  const float floats[] = {1.5f, 2};
  EXPECT_EQ(SumsOf(ask("FP32", {1, 2}, std::string(reinterpret_cast<const char*>(floats), 8))), (json{3.5}));
  EXPECT_EQ(SumsOf(ask("FP16", {1, 2}, std::string("\x00\x3c\x00\xc0", 4))), (json{-1.0}));  // 1 and -2
  EXPECT_EQ(SumsOf(ask("INT8", {1, 2}, "\xff\x01")), (json{0.0}));
  EXPECT_EQ(SumsOf(ask("UINT8", {1, 2}, "\xff\x01")), (json{256.0}));
  EXPECT_EQ(SumsOf(ask("BYTES", {2}, std::string("\x02\0\0\0ab\x01\0\0\0c", 11))), (json{2.0, 1.0}));
  for (const std::string& bytes : {std::string("\x02\0\0\0a", 5), std::string("\x02\0\0", 3),
                                   std::string("\x00\0\0\0\x01\0\0\0c_", 10), std::string("\xff\xff\xff\xff", 4)}) {
    EXPECT_EQ(ask("BYTES", {2}, bytes).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(ask("FP32", {1, 2}, "1234567").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ask("UINT64", {1, 1}, std::string(8, '\xff')).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(OpenInferenceTest, AnswersWithWhatIsAskedForAndAsItIsAskedFor) {
  const json tensor = Tensor("x", "FP32", {2, 2}, {1, 2, 3, 4});
  const json all = json::parse(Ask({tensor}, "", {{"id", "7"}})->body);
  EXPECT_EQ(all["id"], "7");
  EXPECT_EQ(all["model_version"], "v");
  EXPECT_EQ(all["outputs"][0]["shape"], (json{2, 1}));
  EXPECT_EQ(all["outputs"][1],
            (json{{"name", "word"}, {"datatype", "BYTES"}, {"shape", {2, 1}}, {"data", {"word", "word"}}}));
  const auto binary = Ask({tensor}, "", {{"outputs", {{{"name", "word"}, {"parameters", {{"binary_data", true}}}}}}});
  ASSERT_TRUE(binary->header_bytes.has_value());
  EXPECT_EQ(binary->body.substr(*binary->header_bytes), std::string("\x04\0\0\0word\x04\0\0\0word", 16));
  EXPECT_EQ(json::parse(binary->body.substr(0, *binary->header_bytes))["outputs"].size(), 1u);
  EXPECT_TRUE(Ask({tensor}, "", {{"parameters", {{"binary_data_output", true}}}})->header_bytes.has_value());
  for (const json& outputs : {json{{{"name", "none"}}}, json{7}, json{{{"nom", "sum"}}}, json("sum"),
                              json{{{"name", "sum"}, {"parameters", {{"classification", 2}}}}}}) {
    EXPECT_EQ(Ask({tensor}, "", {{"outputs", outputs}}).status().code(), absl::StatusCode::kInvalidArgument) << outputs;
  }
}

TEST(OpenInferenceTest, NoShapeTakesMemoryThatItsBytesDoNotHold) {
  for (const json& shape : {json{1u << 30, 1u << 30}, json{UINT64_MAX}, json{1, UINT64_MAX, UINT64_MAX}, json{1, 0},
                            json{-1, 2}, json{1.5}, json::array(), json("2"), json{1, 1, 1, 1, 1, 1, 1, 1, 2}}) {
    EXPECT_EQ(Ask({Tensor("x", "FP32", shape, {1, 2})}).status().code(), absl::StatusCode::kInvalidArgument) << shape;
  }
  const absl::Status rows = Ask({Tensor("x", "FP32", {1, 2}, {1, 2}), Tensor("t", "BYTES", {2}, {"a", "b"})}).status();
  EXPECT_THAT(rows.message(), testing::HasSubstr("has 2 rows, and the one before it 1"));
}

TEST(OpenInferenceTest, MetadataHasTheTensors) {
  const json metadata = InferMetadata(SummingPredictor(), {.model = "m", .version = "v"});
  EXPECT_EQ(metadata["inputs"][0], (json{{"name", "x"}, {"datatype", "FP32"}, {"shape", {-1, 2}}}));
  EXPECT_EQ(metadata["outputs"][1], (json{{"name", "word"}, {"datatype", "BYTES"}, {"shape", {-1, 1}}}));
}

}  // namespace
}  // namespace downpour
