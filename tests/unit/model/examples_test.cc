// What a model gets of records: its inputs' columns side by side, categories one-hot, and labels as they are learned.
#include "model/examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ExamplesTest : public testing::Test {
 protected:
  // `rest`: of the job's data, behind its files.
  JobSpec JobOn(const std::string& csv, const std::string& rest, const std::string& model) {
    scratch_.Write("train.csv", csv);
    JobFileResult read =
        ParseJob(absl::StrCat("name: j\nmodel: {", model, "}\ndata:\n  format: csv\n  train: ", scratch_.path(),
                              "/train.csv\n", rest),
                 "j.yaml");
    for (const JobError& error : read.errors) ADD_FAILURE() << ToString(error);
    return read.job;
  }
  static absl::StatusOr<Examples> Open(const JobSpec& job) {
    return Examples::Open(job.data, job.data.train, job.model);
  }

  ScratchFolder scratch_;
};

std::vector<float> InputsOf(const ExampleBatch& batch) {
  const auto floats = std::get<absl::Span<const float>>(batch.inputs());
  return {floats.begin(), floats.end()};
}

constexpr char kPeople[] = "age,work,income\n20,x,<=50K\n30,y,>50K\n40,z,>50K.\n";
constexpr char kColumns[] =
    "  columns: [{name: work, vocabulary: [y, x]}, {name: age, scale: {mean: 20, deviation: 10}},\n"
    "            {name: old, from: age, buckets: [35]}]\n";

TEST_F(ExamplesTest, InputsHaveTheirColumnsSideBySide) {
  const JobSpec job =
      JobOn(kPeople, absl::StrCat(kColumns, "  label: {column: income, classes: [<=50K, ['>50K', '>50K.']]}\n"),
            "inputs: [{name: first, columns: [old]}, {name: second, columns: [age, work]}], layers: "
            "[{concat: {}, from: [first, second]}, {dense: {units: 2}}]");
  const auto examples = Open(job);
  ASSERT_TRUE(examples.ok()) << examples.status();
  EXPECT_EQ(examples->size(), 3u);
  EXPECT_EQ(examples->width(), 2 + 1 + 3);
  EXPECT_EQ(examples->classes(), 2);
  EXPECT_EQ(examples->kind().inputs, InputType::kFp32);
  EXPECT_FALSE(examples->kind().is_weighted);
  ExampleBatch batch;
  ASSERT_TRUE(examples->Read({2, 0}, &batch).ok());
  EXPECT_THAT(InputsOf(batch), ElementsAre(0, 1, 2, 0, 0, 1,    // 40: old; z is no word
                                           1, 0, 0, 0, 1, 0));  // 20: not old; x
  EXPECT_THAT(batch.classes, ElementsAre(1, 0));
  EXPECT_TRUE(batch.numbers.empty());
  ASSERT_TRUE(examples->Read({1}, &batch).ok()) << "memory of a larger batch is used again";
  EXPECT_THAT(InputsOf(batch), ElementsAre(1, 0, 1, 1, 0, 0));
  EXPECT_THAT(batch.classes, ElementsAre(1));
}

TEST_F(ExamplesTest, NumbersAreLearnedAsTheyAre) {
  std::string csv = "x,y\n";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&csv, i, ",", i % 2 == 0 ? 1.5 : -0.5, "\n");
  const JobSpec job = JobOn(csv, "  columns: [x]\n  label: y\n",
                            "inputs: [{name: x}], layers: [{dense: {units: 1}}], loss: meanSquaredError");
  const auto examples = Open(job);
  ASSERT_TRUE(examples.ok()) << examples.status();
  ExampleBatch batch;
  ASSERT_TRUE(examples->Read({4, 7}, &batch).ok());
  EXPECT_THAT(batch.numbers, ElementsAre(1.5f, -0.5f));
  EXPECT_THAT(InputsOf(batch), ElementsAre(4, 7));
  EXPECT_NEAR(examples->GuessOf(job.model, 1).loss, 1, 1e-6) << "the variance of what is learned";
  EXPECT_EQ(examples->classes(), 0);
}

TEST_F(ExamplesTest, ASetOfClassesIsARowAndAWeightANumber) {
  const JobSpec job = JobOn("x,tags,w\n1,a|c,2\n2,,0.5\n3,b,0\n",
                            "  columns: [x]\n  weight: w\n"
                            "  label: {column: tags, multiple: true, separator: '|', classes: [a, b, c]}\n",
                            "inputs: [{name: x}], layers: [{dense: {units: 3}}], loss: sigmoidCrossEntropy");
  const auto examples = Open(job);
  ASSERT_TRUE(examples.ok()) << examples.status();
  EXPECT_TRUE(examples->kind().is_weighted);
  EXPECT_TRUE(examples->kind().has_sets);
  ExampleBatch batch;
  ASSERT_TRUE(examples->Read({1, 0, 2}, &batch).ok());
  EXPECT_THAT(batch.numbers, ElementsAre(0, 0, 0, 1, 0, 1, 0, 1, 0));
  EXPECT_THAT(batch.weights, ElementsAre(0.5f, 2, 0));
  EXPECT_THAT(batch.classes, ElementsAre(0, 0, 0));
  EXPECT_TRUE(examples->KeysOf(batch).empty());
  EXPECT_FALSE(examples->GuessOf(job.model, 3).known());
}

TEST_F(ExamplesTest, WhatCannotBeReadIsToldWithItsPlace) {
  const std::string model = "inputs: [{name: age}], layers: [{dense: {units: 2}}]";
  const auto unknown = Open(JobOn(kPeople, "  columns: [age]\n  label: {column: income, classes: [a, b]}\n", model));
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("train.csv:2"));
  // Counting the examples of each class would take 64 PiB.
  const auto far = Open(JobOn("age,income\n20,0\n30,9007199254740991\n", "  columns: [age]\n  label: income\n", model));
  EXPECT_THAT(std::string(far.status().message()), HasSubstr("train.csv:3: field 'income': '9007199254740991' is no"));
  const auto no_field = Open(JobOn(kPeople, "  columns: [age]\n  label: incme\n", model));
  EXPECT_THAT(std::string(no_field.status().message()), HasSubstr("did you mean income?"));
  const auto light =
      Open(JobOn("age,income,w\n20,0,1\n30,1,-2\n", "  columns: [age]\n  label: income\n  weight: w\n", model));
  EXPECT_THAT(std::string(light.status().message()), HasSubstr("train.csv:3: field 'w': '-2' is no weight"));
}

}  // namespace
}  // namespace downpour
