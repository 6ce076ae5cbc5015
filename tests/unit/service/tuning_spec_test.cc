#include "service/tuning_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/numbers.h"

namespace downpour {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// Of one parameter or a list of them.
json SearchOf(json params) {
  if (!params.is_array()) params = json::array({params});
  return {{"goal", "MAXIMIZE"}, {"maxTrials", 8}, {"maxParallelTrials", 2}, {"params", params}};
}
json RateParam(const char* scale) {
  return {{"parameterName", "rate"}, {"type", "DOUBLE"}, {"minValue", 0.001}, {"maxValue", 1}, {"scaleType", scale}};
}
json LayersParam(int least, int most) {
  return {{"parameterName", "layers"}, {"type", "INTEGER"}, {"minValue", least}, {"maxValue", most}};
}
TuningSpec SpecWith(const json& params, const char* algorithm = "ALGORITHM_UNSPECIFIED") {
  json said = SearchOf(params);
  said["algorithm"] = algorithm;
  return ReadTuningSpec(said).value();
}
std::string OneValue(const TuningSpec& spec, double unit) { return ValuesAt(spec, {unit}).begin()->second; }
double OneNumber(const TuningSpec& spec, double unit) {
  double number = 0;
  EXPECT_TRUE(absl::SimpleAtod(OneValue(spec, unit), &number));
  return number;
}

TEST(TuningSpecTest, ScalesSpreadTheValues) {
  EXPECT_NEAR(OneNumber(SpecWith({RateParam("UNIT_LINEAR_SCALE")}), 0.5), 0.5005, 1e-9);
  EXPECT_NEAR(OneNumber(SpecWith({RateParam("UNIT_LOG_SCALE")}), 1.0 / 3), 0.01, 1e-9);
  EXPECT_NEAR(OneNumber(SpecWith({RateParam("UNIT_REVERSE_LOG_SCALE")}), 2.0 / 3), 1.001 - 0.01, 1e-9);
  for (const char* scale : {"UNIT_LINEAR_SCALE", "UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE"}) {
    EXPECT_NEAR(OneNumber(SpecWith({RateParam(scale)}), 0), 0.001, 1e-12) << scale;
    EXPECT_NEAR(OneNumber(SpecWith({RateParam(scale)}), 1), 1, 1e-12) << scale;
  }
}

TEST(TuningSpecTest, EachWholeNumberIsAsLikely) {
  const TuningSpec spec = SpecWith({LayersParam(1, 4)});
  std::vector<std::string> values;
  for (const double unit : {0.0, 0.24, 0.26, 0.74, 0.76, 1.0}) values.push_back(OneValue(spec, unit));
  EXPECT_THAT(values, ElementsAre("1", "1", "2", "3", "4", "4"));
}

TEST(TuningSpecTest, DiscreteNumbersAreInOrderAndWholeOnesHaveNoPoint) {
  const TuningSpec spec =
      SpecWith({{{"parameterName", "batch"}, {"type", "DISCRETE"}, {"discreteValues", {128, 32.5, 64}}}});
  EXPECT_EQ(OneValue(spec, 0), "32.5");
  EXPECT_EQ(OneValue(spec, 0.5), "64");
  EXPECT_EQ(OneValue(spec, 1), "128");
}

TEST(TuningSpecTest, TheGridHasEachPointOnceAndEnds) {
  const json optimizer = {
      {"parameterName", "optimizer"}, {"type", "CATEGORICAL"}, {"categoricalValues", {"sgd", "adam"}}};
  const TuningSpec spec = SpecWith({optimizer, LayersParam(1, 3)}, "GRID_SEARCH");
  EXPECT_EQ(spec.TrialCount(), 6) << "of at most 8";
  EXPECT_THAT(ValuesAt(spec, GridUnits(spec, 1)), ElementsAre(Pair("layers", "1"), Pair("optimizer", "sgd")));
  EXPECT_THAT(ValuesAt(spec, GridUnits(spec, 2)), ElementsAre(Pair("layers", "2"), Pair("optimizer", "sgd")));
  std::set<std::map<std::string, std::string>> points;
  for (int trial = 1; trial <= 6; ++trial) points.insert(ValuesAt(spec, GridUnits(spec, trial)));
  EXPECT_EQ(points.size(), 6u);
}

TEST(TuningSpecTest, ADoubleHasAsManyPointsOnTheGridAsThereAreTrials) {
  const TuningSpec spec = SpecWith({RateParam("UNIT_LOG_SCALE"), LayersParam(1, 2)}, "GRID_SEARCH");
  EXPECT_EQ(spec.TrialCount(), 8);
  EXPECT_EQ(ValuesAt(spec, GridUnits(spec, 1))["rate"], "0.001");
  EXPECT_EQ(ValuesAt(spec, GridUnits(spec, 8))["rate"], "1.0");
}

TEST(TuningSpecTest, AGridOfWholeNumbersOnALogarithmicScaleHasEachOfThem) {
  for (const char* scale : {"UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE"}) {
    json layers = LayersParam(3, 9);
    layers["scaleType"] = scale;
    const TuningSpec spec = SpecWith({layers}, "GRID_SEARCH");
    for (int trial = 1; trial <= 7; ++trial)
      EXPECT_EQ(OneValue(spec, GridUnits(spec, trial)[0]), std::to_string(trial + 2));
  }
}

TEST(TuningSpecTest, ATrialIsTheSameWheneverItIsProposed) {
  const TuningSpec spec = SpecWith({RateParam("UNIT_LOG_SCALE"), LayersParam(1, 1000)});
  EXPECT_EQ(RandomUnits(spec, Seed("a"), 3), RandomUnits(spec, Seed("a"), 3));
  EXPECT_NE(RandomUnits(spec, Seed("a"), 3), RandomUnits(spec, Seed("a"), 4));
  EXPECT_NE(RandomUnits(spec, Seed("a"), 3), RandomUnits(spec, Seed("b"), 3));
  double least = 1, most = 0;
  for (int trial = 1; trial <= 1000; ++trial) {
    const double unit = RandomUnits(spec, Seed("a"), trial)[0];
    least = std::min(least, unit);
    most = std::max(most, unit);
  }
  EXPECT_LT(least, 0.01);
  EXPECT_GT(most, 0.99);
  EXPECT_LT(most, 1);
}

TEST(TuningSpecTest, WithoutATagTheGoalSaysTheMetric) {
  json said = SearchOf({LayersParam(1, 2)});
  EXPECT_EQ(ReadTuningSpec(said)->metric, "accuracy");
  said["goal"] = "MINIMIZE";
  EXPECT_EQ(ReadTuningSpec(said)->metric, "loss");
}

TEST(TuningSpecTest, WhatCannotBeSearchedIsRefusedByItsField) {
  const std::pair<const char*, json> wrong[] = {
      {"goal", "BEST"},
      {"maxTrials", 0},
      {"maxTrials", 1001},
      {"maxTrials", "7"},
      {"maxParallelTrials", 0},
      {"maxFailedTrials", -1},
      {"algorithm", "GENETIC"},
      {"enableTrialEarlyStopping", 1},
      {"hyperparameterMetricTag", 1},
      {"resumePreviousJobId", "before"},
      {"params", json::array()},
      {"params", json::array({1})},
      {"params", json::array({LayersParam(2, 1)})},
      {"params", {LayersParam(1, 2), LayersParam(1, 2)}},
      {"unknown", 1},
  };
  for (const auto& [key, value] : wrong) {
    json said = SearchOf({LayersParam(1, 2)});
    said[key] = value;
    const absl::StatusOr<TuningSpec> spec = ReadTuningSpec(said);
    ASSERT_FALSE(spec.ok()) << key << value;
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(std::string("hyperparameters.") + key));
  }
  const std::pair<const char*, json> wrong_params[] = {
      {"parameterName", ""},   {"parameterName", "-x"}, {"parameterName", "a=b"},         {"type", "REAL"},
      {"minValue", "0"},       {"minValue", 0.5},       {"scaleType", "UNIT_LOG_SCALES"}, {"unknown", 1},
      {"type", "CATEGORICAL"}, {"type", "DISCRETE"},
  };
  for (const auto& [key, value] : wrong_params) {
    json param = LayersParam(1, 2);
    param[key] = value;
    EXPECT_FALSE(ReadTuningSpec(SearchOf({param})).ok()) << param;
  }
  json param = LayersParam(0, 2);
  param["scaleType"] = "UNIT_LOG_SCALE";
  EXPECT_THAT(std::string(ReadTuningSpec(SearchOf({param})).status().message()), HasSubstr("above 0"));
  EXPECT_FALSE(ReadTuningSpec(json("x")).ok());
}

}  // namespace
}  // namespace downpour
