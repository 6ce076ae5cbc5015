#include "predict/predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "checkpoint/table_reader.h"
#include "tests/unit/predict/made_predictor.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;

const std::vector<float>& FloatsOf(const OutputBatch& answer, const std::string& name) {
  return std::get<std::vector<float>>(answer.Find(name)->values);
}

std::string ErrorOf(const Predictor& predictor, const InputBatch& batch) {
  return std::string(predictor.Predict(batch).status().message());
}

TEST(Predictor, AnswersImagesByProbabilitiesAndClass) {
  const auto predictor = MadePredictor("images", SmallJob(), Diagonal);
  const float pixels[] = {255, 0, 0, 0, 0, 0, 51, 0};
  const auto answer = predictor->Predict({2, {{"in", 4, absl::MakeConstSpan(pixels)}}});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(std::get<std::vector<int64_t>>(answer->Find("class")->values), ElementsAre(0, 2));
  const std::vector<float>& shares = FloatsOf(*answer, "probabilities");
  ASSERT_EQ(shares.size(), 6u);
  EXPECT_NEAR(shares[0], std::exp(2.0) / (std::exp(2.0) + 2), 1e-6);
  EXPECT_NEAR(shares[5], std::exp(0.4) / (std::exp(0.4) + 2), 1e-6);
  EXPECT_EQ(answer->Find("label"), nullptr);
  EXPECT_EQ(predictor->bytes_held(), 15 * sizeof(float));
  EXPECT_EQ(predictor->model_name(), "small");
  EXPECT_THAT(predictor->origin(), testing::EndsWith("/checkpoints/1-1"));
  EXPECT_TRUE(WarmUp(*predictor).ok());
}

TEST(Predictor, IsAskedBeforeEachBlockWhetherItGoesOn) {
  const auto predictor = MadePredictor("blocks", SmallJob(), Diagonal);
  const std::vector<float> pixels(size_t{4} * 1000);
  InputBatch batch{1000, {{"in", 4, absl::MakeConstSpan(pixels)}}};
  std::vector<size_t> asked;
  batch.may_go_on = [&](size_t first) {
    asked.push_back(first);
    return absl::OkStatus();
  };
  ASSERT_TRUE(predictor->Predict(batch).ok());
  EXPECT_THAT(asked, ElementsAre(0, 256, 512, 768));
  batch.may_go_on = [&](size_t first) {
    asked.push_back(first);
    return first < 256 ? absl::OkStatus() : absl::DeadlineExceededError("it is late");
  };
  asked.clear();
  EXPECT_EQ(ErrorOf(*predictor, batch), "it is late");
  EXPECT_THAT(asked, ElementsAre(0, 256));
}

TEST(Predictor, TellsWhatIsNoImage) {
  const auto predictor = MadePredictor("no_images", SmallJob(), Diagonal, {.most_rows = 3});
  const auto of = [&](const std::vector<float>& pixels, int64_t width, size_t rows) {
    return ErrorOf(*predictor, {rows, {{"in", width, absl::MakeConstSpan(pixels)}}});
  };
  EXPECT_THAT(of({1, 2, 3, 4, 5, 6, 7, 256}, 4, 2),
              AllOf(HasSubstr("row 1: column 'in' has 256 at place 3"), HasSubstr("0 to 255")));
  EXPECT_THAT(of({1, 2, 3, NAN}, 4, 1), HasSubstr("row 0: column 'in' has nan at place 3"));
  EXPECT_THAT(of({1, 2, 3}, 3, 1), HasSubstr("row 0: column 'in' has 3 numbers, where the model takes 4"));
  EXPECT_THAT(of({1, 2, 3}, 4, 1), HasSubstr("has 3 values for 1 row of width 4"));
  EXPECT_THAT(of({}, 0, 1), HasSubstr("of width 0"));
  EXPECT_THAT(of(std::vector<float>(16), 4, 4), HasSubstr("4 rows, where a request may have 3"));
  EXPECT_THAT(ErrorOf(*predictor, {1, {}}), HasSubstr("column 'in' is missing"));
  const std::string_view word = "x";
  EXPECT_THAT(ErrorOf(*predictor, {1, {{"in", 1, absl::MakeConstSpan(&word, 1)}}}), HasSubstr("no list of 4 numbers"));
}

TEST(Predictor, TransformsColumnsAsTrainingDoes) {
  const auto predictor = MadePredictor("columns", JobWithColumns(), Counting);
  // (age - 40) / 10, then one-hot of cook, smith, other, then place.
  const double lists[] = {1, 10, 100};
  const std::vector<FieldValue> ages = {50.0, FieldValue(), std::string_view("30"), int64_t{60}};
  const std::vector<FieldValue> jobs = {std::string_view("cook"), std::string_view("smith"), FieldValue(), 3.0};
  const std::vector<FieldValue> places(4, FieldList(lists));
  const auto answer = predictor->Predict({4, {{"job", 1, jobs}, {"place", 1, places}, {"age", 1, ages}}});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const double place = 5 + 60 + 700;
  EXPECT_THAT(FloatsOf(*answer, "prediction"),
              ElementsAre(FloatNear(static_cast<float>(10 * (1 + 2 + place) + 100), 1e-3f),
                          FloatNear(static_cast<float>(10 * (0 + 3 + place) + 100), 1e-3f),
                          FloatNear(static_cast<float>(10 * (-1 + 4 + place) + 100), 1e-3f),
                          FloatNear(static_cast<float>(10 * (2 + 4 + place) + 100), 1e-3f)));
  // The same of typed columns.
  const float floats[] = {1, 10, 100};
  const int64_t age = 50;
  const std::string_view job = "cook";
  const auto typed = predictor->Predict({1,
                                         {{"place", 3, absl::MakeConstSpan(floats)},
                                          {"age", 1, absl::MakeConstSpan(&age, 1)},
                                          {"job", 1, absl::MakeConstSpan(&job, 1)}}});
  ASSERT_TRUE(typed.ok()) << typed.status();
  EXPECT_EQ(FloatsOf(*typed, "prediction")[0], FloatsOf(*answer, "prediction")[0]);
  EXPECT_TRUE(WarmUp(*predictor).ok());
}

TEST(Predictor, NamesRowAndColumnOfWhatDoesNotFit) {
  const auto predictor = MadePredictor("misfits", JobWithColumns(), Counting);
  const double lists[] = {1, 10, 100}, missing[] = {1, NAN, 100}, large[] = {1, 2, 1e39};
  const auto of = [&](const FieldValue& age, const FieldValue& place) {
    const std::vector<FieldValue> ages = {1.0, age}, places = {FieldList(lists), place};
    return ErrorOf(*predictor, {2, {{"place", 1, places}, {"age", 1, ages}}});
  };
  EXPECT_EQ(of(2.0, FieldList(lists)), "");
  EXPECT_EQ(of(std::string_view("old"), FieldList(lists)),
            "row 1: field 'age': 'old' is no number: write a finite one");
  EXPECT_EQ(of(2.0, FieldList(missing)),
            "row 1: field 'place': 'nan' stands for a missing value: write a number, since the model was trained "
            "without a default for it");
  EXPECT_THAT(of(2.0, FieldList(large)), HasSubstr("row 1: field 'place': '1e+39' is beyond what a float holds"));
  EXPECT_THAT(of(2.0, 7.0), HasSubstr("row 1: field 'place': '7' is not what column 'place' takes, whose width is 3"));
  const std::vector<FieldValue> one = {1.0};
  EXPECT_EQ(ErrorOf(*predictor, {1, {{"age", 1, one}}}),
            "column 'place' is missing: the model needs it, and has no default for it");
  EXPECT_THAT(ErrorOf(*predictor, {1, {{"ages", 1, one}}}), HasSubstr("no input 'ages'; did you mean age?"));
  EXPECT_THAT(ErrorOf(*predictor, {1, {{"age", 1, one}, {"age", 1, one}}}), HasSubstr("column 'age' comes twice"));
  EXPECT_EQ(ErrorOf(*predictor, {0, {{"age", 1, {}}, {"pay", 1, {}}, {"place", 1, {}}}}), "")
      << "the label is no input";
}

TEST(Predictor, SaysWhatItTakes) {
  const auto columns = MadePredictor("takes", JobWithColumns(), Counting);
  const Signature& of_columns = columns->signature();
  ASSERT_EQ(of_columns.inputs.size(), 3u);
  EXPECT_EQ(of_columns.inputs[0].name, "age");
  EXPECT_EQ(of_columns.inputs[0].fill, 40);
  EXPECT_FALSE(of_columns.inputs[0].is_needed);
  EXPECT_EQ(of_columns.inputs[1].kind, InputKind::kText);
  EXPECT_FALSE(of_columns.inputs[1].is_needed);
  EXPECT_EQ(of_columns.inputs[2].width, 3);
  EXPECT_TRUE(of_columns.inputs[2].is_needed);
  EXPECT_THAT(of_columns.passed_over, ElementsAre("pay"));
  const auto images = MadePredictor("takes", SmallJob(), Diagonal);
  const Signature& of_images = images->signature();
  EXPECT_EQ(of_images.Find("input"), 0u);
  EXPECT_EQ(of_images.Find(""), 0u);
  EXPECT_EQ(of_columns.Find("input"), std::nullopt);
}

// Rows are as they were born, so a key that has a row is answered as one that has none.
TEST(Predictor, ReadsRowsOfTablesAsAPullDoes) {
  const JobSpec job = JobWithTables();
  const auto predictor = MadePredictor("tables", job, Counting);
  ASSERT_NE(predictor, nullptr);
  const int64_t users[] = {3, 99, 12345, -1};
  const auto answer = predictor->Predict({4, {{"user", 1, absl::MakeConstSpan(users)}}});
  ASSERT_TRUE(answer.ok()) << answer.status();
  for (size_t row = 0; row < 4; ++row) {
    std::vector<float> values(8);
    InitialRow(TablesOf(job)[0], static_cast<uint64_t>(users[row]), values.data());
    double outputs[3] = {}, sum = 0;
    for (size_t i = 0; i < 24; ++i) outputs[i % 3] += values[i / 3] * static_cast<double>(i + 1);
    for (const double output : outputs) sum += std::exp(output);
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(FloatsOf(*answer, "probabilities")[3 * row + c], std::exp(outputs[c]) / sum, 1e-5);
    }
  }
  EXPECT_GE(predictor->bytes_held(), kMadeKeys * 8 * sizeof(float));
  const std::vector<FieldValue> none(1);
  const auto missing = predictor->Predict({1, {{"user", 1, none}}});
  ASSERT_TRUE(missing.ok()) << missing.status();
  EXPECT_FLOAT_EQ(FloatsOf(*missing, "probabilities")[0], 1 / 3.0f) << "without a key the embedding is 0";
}

TEST(Predictor, SaysThatTheModelsOutputIsNotFinite) {
  const auto huge = [](uint32_t, int64_t) { return 3e38f; };
  const auto predictor = MadePredictor("huge", SmallJob(), huge);
  const float pixels[] = {0, 0, 0, 0, 255, 255, 255, 255};
  const auto answer = predictor->Predict({2, {{"in", 4, absl::MakeConstSpan(pixels)}}});
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(answer.status().message(), HasSubstr("row 1: the model's output is not finite"));
}

TEST(Predictor, AnswersManyThreadsAtTheSameTime) {
  const auto predictor = MadePredictor("threads", SmallJob(), Diagonal);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const size_t rows = 1 + static_cast<size_t>(i) % 300, lit = static_cast<size_t>(t) % 3;
        std::vector<float> pixels(rows * 4);
        for (size_t row = 0; row < rows; ++row) pixels[row * 4 + lit] = 200;
        const auto answer = predictor->Predict({rows, {{"", 4, absl::MakeConstSpan(pixels)}}});
        if (!answer.ok()) {
          ++wrong;
          continue;
        }
        for (const int64_t one : std::get<std::vector<int64_t>>(answer->Find("class")->values)) {
          wrong += one != static_cast<int64_t>(lit);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace downpour
