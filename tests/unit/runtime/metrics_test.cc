#include "runtime/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "job/job_names.h"
#include "runtime/prng.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

struct Examples {
  Loss loss = Loss::kSoftmaxCrossEntropy;
  std::vector<float> outputs;
  std::vector<float> labels;
  std::vector<double> weights = {};
  double weight() const {
    return weights.empty() ? static_cast<double>(labels.size()) : std::accumulate(weights.begin(), weights.end(), 0.0);
  }
};

std::vector<double> SumsOfAll(const std::vector<MetricSpec>& metrics, const Examples& examples) {
  std::vector<double> sums(CountMetricSums(metrics));
  AddMetricSums(metrics, examples.loss, examples.outputs, examples.labels, examples.weights, absl::MakeSpan(sums));
  return sums;
}

double ValueOfOne(const MetricSpec& metric, const Examples& examples) {
  return MetricValues({metric}, SumsOfAll({metric}, examples), examples.weight())[0].second;
}

Examples Single(std::vector<float> outputs, std::vector<float> labels) {
  return {Loss::kMeanSquaredError, std::move(outputs), std::move(labels)};
}

TEST(MetricsTest, TopKCountsTheLabelAmongTheLargest) {
  const Examples four{.outputs = {4, 3, 2, 1, 4, 3, 2, 1, 4, 3, 2, 1, 1, 1, 1, 1}, .labels = {0, 1, 2, 2}};
  EXPECT_DOUBLE_EQ(ValueOfOne({MetricKind::kTopK, 2}, four), 0.5);
  EXPECT_DOUBLE_EQ(ValueOfOne({MetricKind::kTopK, 3}, four), 1.0) << "of equal outputs the first count as larger";
}

TEST(MetricsTest, LogLossIsThatOfTheLabelsShare) {
  const Examples classes{.outputs = {1, 2, 800, 0}, .labels = {0, 0}};
  EXPECT_NEAR(ValueOfOne({MetricKind::kLogLoss}, classes), std::log(1 + std::exp(1.0)) / 2, 1e-9);
  const double capped = -std::log(1e-7);
  EXPECT_NEAR(ValueOfOne({MetricKind::kLogLoss}, Single({0.25, -3}, {1, 1})), (std::log(4) + capped) / 2, 1e-6);
}

TEST(MetricsTest, RootOfTheMeanSquare) {
  EXPECT_DOUBLE_EQ(ValueOfOne({MetricKind::kRmse}, Single({1, 7, 2}, {4, 3, 2})), 5 / std::sqrt(3));
}

// Against all pairs, as the area is defined.
TEST(MetricsTest, AreaIsTheShareOfPairsInTheirOrder) {
  Prng prng(7);
  Examples examples;
  std::vector<double> odds;
  for (int i = 0; i < 400; ++i) {
    examples.labels.push_back(prng.Chance(0.2));
    odds.push_back(static_cast<double>(prng.Below(600)) / 64 - 5 + examples.labels.back());  // 1/64 is half a bin
    examples.outputs.insert(examples.outputs.end(), {0.0f, static_cast<float>(odds.back())});
  }
  double in_order = 0, pairs = 0;
  for (size_t i = 0; i < odds.size(); ++i) {
    for (size_t j = 0; j < odds.size(); ++j) {
      if (examples.labels[i] != 1 || examples.labels[j] != 0) continue;
      ++pairs;
      in_order += odds[i] > odds[j] ? 1 : odds[i] == odds[j] ? 0.5 : 0;
    }
  }
  EXPECT_NEAR(ValueOfOne({MetricKind::kAuc}, examples), in_order / pairs, 2e-3);
  EXPECT_DOUBLE_EQ(ValueOfOne({MetricKind::kAuc}, Single({0.1f, 0.9f, 0.5f}, {0, 1, 1})), 1);
  EXPECT_DOUBLE_EQ(ValueOfOne({MetricKind::kAuc}, Single({-9, 9, 9}, {1, 0, 1})), 0.25);
  EXPECT_TRUE(std::isnan(ValueOfOne({MetricKind::kAuc}, Single({0.1f, 0.9f}, {1, 1})))) << "of one class";
}

TEST(MetricsTest, CalibrationIsPredictedOverSeen) {
  EXPECT_NEAR(ValueOfOne({MetricKind::kCalibration}, Single({0.5, 0.25, 0.25, 1}, {1, 0, 0, 0})), 2, 1e-6);
  const Examples classes{.outputs = {0, 0, 0, 0}, .labels = {1, 0}};
  EXPECT_DOUBLE_EQ(ValueOfOne({MetricKind::kCalibration}, classes), 1);
  EXPECT_TRUE(std::isnan(ValueOfOne({MetricKind::kCalibration}, Single({0.5}, {0}))));
}

TEST(MetricsTest, CalibrationErrorIsTheDistanceInEachBin) {
  // Two of p = 0.5, one of them right: calibrated. Two of p near 1, one of them right: half of them too many.
  const Examples examples{.outputs = {0, 0, 0, 0, 50, 0, 50, 0}, .labels = {0, 1, 0, 1}};
  EXPECT_NEAR(ValueOfOne({MetricKind::kCalibrationError}, examples), 0.25, 1e-9);
}

TEST(MetricsTest, PartsAddUpToTheWhole) {
  const std::vector<MetricSpec> metrics = {
      {MetricKind::kTopK, 2}, {MetricKind::kLogLoss}, {MetricKind::kCalibrationError}};
  Prng prng(3);
  Examples whole, parts[2];
  for (int i = 0; i < 90; ++i) {
    const auto label = static_cast<float>(prng.Below(3));
    for (Examples* to : {&whole, &parts[i % 2]}) to->labels.push_back(label);
    for (int output = 0; output < 3; ++output) {
      const float value = static_cast<float>(prng.Below(1000)) / 200;
      for (Examples* to : {&whole, &parts[i % 2]}) to->outputs.push_back(value);
    }
  }
  std::vector<double> merged = SumsOfAll(metrics, parts[0]);
  const std::vector<double> other = SumsOfAll(metrics, parts[1]), all = SumsOfAll(metrics, whole);
  ASSERT_EQ(all.size(), CountMetricSums(metrics));
  for (size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(merged[i] + other[i], all[i], 1e-9) << i;
}

TEST(MetricsTest, WhatIsNoNumberIsNeverRight) {
  const Examples classes{.outputs = {kNan, 0, 1, 0, 1, kInfinite, kInfinite, kInfinite}, .labels = {0, 0, 1, 1}};
  EXPECT_DOUBLE_EQ(ValueOfOne({MetricKind::kTopK, 2}, classes), 0.75);
  for (const MetricKind kind :
       {MetricKind::kLogLoss, MetricKind::kAuc, MetricKind::kCalibration, MetricKind::kCalibrationError}) {
    EXPECT_TRUE(std::isnan(ValueOfOne({kind}, classes))) << NameOf({kind});
  }
  EXPECT_TRUE(std::isnan(ValueOfOne({MetricKind::kRmse}, Single({kNan, 1}, {1, 1}))));
}

// So each metric is what it would be of a longer set.
TEST(MetricsTest, AnExampleCountsAsOftenAsItsWeightSays) {
  Prng prng(11);
  for (const bool is_single : {true, false}) {
    Examples weighted, repeated;
    weighted.loss = repeated.loss = is_single ? Loss::kSigmoidCrossEntropy : Loss::kSoftmaxCrossEntropy;
    for (int i = 0; i < 60; ++i) {
      const auto weight = static_cast<double>(prng.Below(4)), label = static_cast<double>(prng.Chance(0.4));
      std::vector<float> outputs(is_single ? 1 : 2);
      for (float& output : outputs) output = static_cast<float>(prng.Below(1000)) / 1000;
      weighted.weights.push_back(weight);
      weighted.labels.push_back(static_cast<float>(label));
      weighted.outputs.insert(weighted.outputs.end(), outputs.begin(), outputs.end());
      for (int times = 0; times < weight; ++times) {
        repeated.labels.push_back(static_cast<float>(label));
        repeated.outputs.insert(repeated.outputs.end(), outputs.begin(), outputs.end());
      }
    }
    std::vector<MetricSpec> metrics = {{MetricKind::kLogLoss}, {MetricKind::kAuc}, {MetricKind::kCalibration}};
    if (!is_single) metrics.push_back({MetricKind::kCalibrationError});
    for (const MetricSpec& metric : metrics) {
      EXPECT_NEAR(ValueOfOne(metric, weighted), ValueOfOne(metric, repeated), 1e-9) << NameOf(metric);
    }
    EXPECT_DOUBLE_EQ(WeightOfRight(weighted.outputs, weighted.labels, weighted.weights),
                     WeightOfRight(repeated.outputs, repeated.labels, {}));
  }
  Examples numbers = Single({1, 7, 2}, {4, 3, 2});
  numbers.weights = {2, 0, 0.5};
  EXPECT_DOUBLE_EQ(ValueOfOne({MetricKind::kRmse}, numbers), std::sqrt(18 / 2.5));
}

TEST(MetricsTest, AnExampleOfNoWeightIsNotLookedAt) {
  Examples examples = Single({0.25, kNan}, {0, 1});
  examples.weights = {1, 0};
  EXPECT_NEAR(ValueOfOne({MetricKind::kLogLoss}, examples), -std::log(0.75), 1e-7);
  EXPECT_DOUBLE_EQ(WeightOfRight({0.25f, kNan}, {0, 1}, {2, 3}), 2) << "what is no number is not right";
  examples.weights = {0, 0};
  EXPECT_TRUE(std::isnan(ValueOfOne({MetricKind::kLogLoss}, examples))) << "it is not defined";
}

TEST(MetricsTest, LessShortfallIsBetter) {
  const std::vector<MetricSpec> metrics = {{MetricKind::kTopK, 5},
                                           {MetricKind::kLogLoss},
                                           {MetricKind::kRmse},
                                           {MetricKind::kAuc},
                                           {MetricKind::kCalibration},
                                           {MetricKind::kCalibrationError},
                                           {MetricKind::kAuc, 0, "clicks"},
                                           {MetricKind::kRmse, 0, "stars"},
                                           {MetricKind::kRatio, 0, "recall", Better::kMore},
                                           {MetricKind::kMean, 0, "distance", Better::kLess}};
  const auto shortfall = [&](const char* name, double value) { return Shortfall(metrics, name, value); };
  for (const char* more_is_better : {"accuracy", "top5", "auc", "clicks", "recall"}) {
    EXPECT_LT(shortfall(more_is_better, 0.9), shortfall(more_is_better, 0.8)) << more_is_better;
  }
  for (const char* less_is_better : {"loss", "logLoss", "rmse", "calibrationError", "stars", "distance"}) {
    EXPECT_LT(shortfall(less_is_better, 0.8), shortfall(less_is_better, 0.9)) << less_is_better;
  }
  EXPECT_LT(shortfall("calibration", 0.9), shortfall("calibration", 1.2));
  EXPECT_LT(shortfall("calibration", 1.1), shortfall("calibration", 0.8));
  const std::vector<MetricSpec> own = {{MetricKind::kMean, 0, "accuracy"}};
  EXPECT_LT(Shortfall(own, "accuracy", 0.9), Shortfall(own, "accuracy", 0.8)) << "in the place of the job's";
}

TEST(MetricsTest, WhatPythonCodeSumsUpHasTheValueOfItsKind) {
  const std::vector<MetricSpec> metrics = {{MetricKind::kMean, 0, "distance"},
                                           {MetricKind::kRatio, 0, "recall"},
                                           {MetricKind::kRatio, 0, "nothing"},
                                           {MetricKind::kRmse, 0, "stars"}};
  ASSERT_EQ(CountMetricSums(metrics), 6U);
  const auto values = MetricValues(metrics, {8, 3, 4, 0, 0, 36}, 4);
  EXPECT_EQ(values[0], (std::pair<std::string, double>("distance", 2)));
  EXPECT_EQ(values[1], (std::pair<std::string, double>("recall", 0.75)));
  EXPECT_TRUE(std::isnan(values[2].second)) << "no sum to divide by";
  EXPECT_EQ(values[3], (std::pair<std::string, double>("stars", 3)));
}

TEST(MetricsTest, ValuesHaveTheirNamesAndOrder) {
  const std::vector<MetricSpec> metrics = {{MetricKind::kRmse}, {MetricKind::kLogLoss}};
  EXPECT_THAT(MetricValues(metrics, SumsOfAll(metrics, Single({0.5, 0.5}, {1, 0})), 2),
              ElementsAre(Pair("rmse", 0.5), Pair("logLoss", testing::DoubleNear(std::log(2), 1e-9))));
}

}  // namespace
}  // namespace downpour
