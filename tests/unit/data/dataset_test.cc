#include "data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "data/sample_ids.h"

namespace downpour {
namespace {

// One column of labels.
class Labels final : public Dataset {
 public:
  explicit Labels(std::vector<int64_t> labels) : labels_(std::move(labels)) {}
  uint64_t size() const override { return labels_.size(); }
  const std::vector<Column>& columns() const override { return columns_; }
  uint64_t fingerprint() const override { return 0; }
  absl::Status ReadBatch(absl::Span<const uint64_t> ids, absl::Span<const size_t>,
                         absl::Span<ColumnValues> values) const override {
    auto& to = values[0].emplace<std::vector<int64_t>>();
    for (const uint64_t id : ids) to.push_back(labels_.at(id));
    return absl::OkStatus();
  }

 private:
  const std::vector<int64_t> labels_;
  const std::vector<Column> columns_ = {{kLabelColumn, ColumnType::kInt64}};
};

TEST(DatasetTest, LabelsAreCountedToTheLastOne) {
  std::vector<int64_t> labels(100'000, 2);
  labels.back() = 5;
  EXPECT_EQ(CountLabels(Labels(labels), 0).value(), (std::vector<uint64_t>{0, 0, 99'999, 0, 0, 1}));
  EXPECT_TRUE(CountLabels(Labels({}), 0)->empty());
}

TEST(DatasetTest, ASampleHasRunsFromTheFirstExampleToTheLast) {
  EXPECT_EQ(SampleIds(3, 128), (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_EQ(SampleIds(65, 64).size(), 64u);
  EXPECT_EQ(SampleIds(1'000'000'007, 1 << 13).back(), 1'000'000'006u);
  for (const uint64_t size : {uint64_t{128}, uint64_t{129}, uint64_t{200}, uint64_t{1} << 50}) {
    const std::vector<uint64_t> ids = SampleIds(size, 128);
    ASSERT_EQ(ids.size(), 128u);
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()), ids.end()) << size << ": each once";
    EXPECT_EQ(ids.front(), 0u);
    EXPECT_EQ(ids.back(), size - 1) << "what a sorted file ends with is seen";
  }
}

TEST(DatasetTest, WhatIsNoClassIsNamedWithItsExample) {
  const auto error = [](std::vector<int64_t> labels) {
    return std::string(CountLabels(Labels(std::move(labels)), 0, 4).status().message());
  };
  EXPECT_EQ(error({0, 3}), "");
  EXPECT_EQ(error({0, 4}), "example 1 has the label 4, which is no class from 0 to 3");
  EXPECT_EQ(error({-1}), "example 0 has the label -1, which is no class from 0 to 3");
}

TEST(DatasetTest, ColumnsAreFoundByName) {
  EXPECT_EQ(FindColumn(Labels({}), kLabelColumn), 0u);
  EXPECT_EQ(FindColumn(Labels({}), "image"), std::nullopt);
}

Guess Of(std::vector<uint64_t> counts, Loss loss = Loss::kSoftmaxCrossEntropy, int64_t outputs = 1) {
  return GuessOf(counts, loss, outputs);
}

TEST(GuessTest, OfClassesIsTheirEntropyAndTheLargestShare) {
  EXPECT_DOUBLE_EQ(Of({50, 50, 50, 50}).loss, std::log(4));
  EXPECT_DOUBLE_EQ(Of({50, 50, 50, 50}).accuracy, 0.25);
  EXPECT_DOUBLE_EQ(Of({100, 0, 300}).loss, -0.25 * std::log(0.25) - 0.75 * std::log(0.75));
  EXPECT_DOUBLE_EQ(Of({100, 0, 300}).accuracy, 0.75);
}

TEST(GuessTest, IsNotKnownOfFewExamples) {
  EXPECT_FALSE(Of({}).known());
  EXPECT_FALSE(Of({0, 1000}).known()) << "one class alone";
  EXPECT_FALSE(Of({29, 1000000}).known());
  EXPECT_TRUE(Of({30, 1000000}).known());
  EXPECT_FALSE(Of({49, 0, 50}).known());
  EXPECT_TRUE(Of({50, 0, 50}).known());
}

TEST(GuessTest, CountsOfAnySizeGiveOne) {
  EXPECT_DOUBLE_EQ(Of(std::vector<uint64_t>(3, std::numeric_limits<uint64_t>::max())).loss, std::log(3));
}

TEST(GuessTest, OfNumbersIsTheirVariance) {
  EXPECT_DOUBLE_EQ(Of({30, 0, 30}, Loss::kMeanSquaredError).loss, 1);
  EXPECT_DOUBLE_EQ(Of({30, 0, 0, 90}, Loss::kMeanSquaredError).loss, 27.0 / 16);
  EXPECT_EQ(Of({30, 0, 30}, Loss::kMeanSquaredError).accuracy, 0);
  EXPECT_FALSE(Of({29, 0, 30}, Loss::kMeanSquaredError).known());
  EXPECT_FALSE(Of({1000, 1000}, Loss::kOwn).known());
}

TEST(GuessTest, OfSeveralOutputsIsTheMeanOfTheirVariances) {
  EXPECT_DOUBLE_EQ(Of({50, 50, 50, 50}, Loss::kMeanSquaredError, 4).loss, 0.1875);
  EXPECT_DOUBLE_EQ(Of({50, 150}, Loss::kMeanSquaredError, 4).loss, 0.09375);
  EXPECT_DOUBLE_EQ(Of({50, 150}, Loss::kMeanSquaredError, 4).accuracy, 0.75);
  EXPECT_FALSE(Of({49, 49}, Loss::kMeanSquaredError, 2).known());
}

}  // namespace
}  // namespace downpour
