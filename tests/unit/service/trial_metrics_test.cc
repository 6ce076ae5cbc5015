#include "service/trial_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TrialMetricsTest : public testing::Test {
 protected:
  void Write(const char* name, const std::string& text) { std::ofstream(folder_.path() + "/" + name) << text; }
  std::vector<double> ValuesOf(const char* metric) {
    std::vector<double> values;
    for (const CurvePoint& point : ReadCurve(folder_.path(), metric)) values.push_back(point.value);
    return values;
  }
  ScratchFolder folder_;
};

TEST_F(TrialMetricsTest, ACurveIsOfTheLastRunAndSkipsWhatAKillCut) {
  Write("metrics.jsonl", R"({"kind":"job","run":"a"}
{"kind":"eval","step":5,"loss":9}
{"kind":"job","run":"b"}
{"kind":"eval","step":10,"loss":2,"accuracy":0.5,"metrics":{"auc":0.6}}
{"kind":"train","step":12,"loss":7}
{"kind":"eval","ste

{"kind":"job","run":"b"}
{"kind":"eval","step":20,"loss":null,"accuracy":0.7,"metrics":{"auc":0.8}}
{"kind":"eval","step":"x","loss":1}
)");
  EXPECT_THAT(ValuesOf("loss"), ElementsAre(2));
  EXPECT_THAT(ValuesOf("accuracy"), ElementsAre(0.5, 0.7));
  EXPECT_THAT(ValuesOf("auc"), ElementsAre(0.6, 0.8));
  EXPECT_EQ(ReadCurve(folder_.path(), "auc").back().step, 20);
}

TEST_F(TrialMetricsTest, AnAccuracyOfTheUsersOwnStandsAmongTheMetrics) {
  Write("metrics.jsonl", R"({"kind":"job","run":"a"}
{"kind":"eval","step":5,"loss":9,"metrics":{"accuracy":0.25}}
)");
  EXPECT_THAT(ValuesOf("accuracy"), ElementsAre(0.25));
}

TEST_F(TrialMetricsTest, AGrowingCurveReadsOnlyWhatWasAppended) {
  const auto append = [&](const std::string& text) {
    std::ofstream(folder_.path() + "/metrics.jsonl", std::ios::app) << text;
  };
  GrowingCurve curve(folder_.path(), "loss");
  EXPECT_TRUE(curve.Read().empty()) << "there is no file yet";
  const auto values = [&] {
    std::vector<double> read;
    for (const CurvePoint& point : curve.Read()) read.push_back(point.value);
    return read;
  };
  append("{\"kind\":\"job\",\"run\":\"a\"}\n{\"kind\":\"eval\",\"step\":1,\"loss\":9}\n{\"kind\":\"eval\",");
  EXPECT_THAT(values(), ElementsAre(9));
  std::fstream(folder_.path() + "/metrics.jsonl", std::ios::in | std::ios::out) << std::string(22, ' ');
  append("\"step\":2,\"loss\":8}\n");
  EXPECT_THAT(values(), ElementsAre(9, 8)) << "the line that was half there is read, those before it are not again";
  EXPECT_THAT(values(), ElementsAre(9, 8));
  append("{\"kind\":\"job\",\"run\":\"b\"}\n");
  EXPECT_THAT(values(), testing::IsEmpty()) << "another run";
  Write("metrics.jsonl", "{\"kind\":\"eval\",\"step\":1,\"loss\":7}\n");
  EXPECT_THAT(values(), ElementsAre(7)) << "a shorter file";
}

TEST_F(TrialMetricsTest, TheObjectiveIsTheSummarysAndAMissingOneIsNamed) {
  Write("summary.json", R"({"evalLoss":0.25,"evalAccuracy":0.9,"evalMetrics":{"top5":0.99}})");
  for (const auto& [name, value] : {std::pair{"loss", 0.25}, std::pair{"accuracy", 0.9}, std::pair{"top5", 0.99}}) {
    RunSeen seen = {.started = true, .exit_code = 0};
    ReadObjective(folder_.path(), name, &seen);
    EXPECT_EQ(seen.objective, value);
  }
  RunSeen seen = {.started = true, .exit_code = 0};
  ReadObjective(folder_.path(), "auc", &seen);
  EXPECT_FALSE(seen.objective);
  EXPECT_THAT(seen.error, HasSubstr("no auc that is a number, but accuracy, loss, top5"));
}

Curve Flat(double value) { return {{10, value}, {20, value}, {30, value}}; }

TEST(MedianRuleTest, ItNeedsOthersThatGotAsFar) {
  const Curve bad = {{10, 0.1}};
  EXPECT_FALSE(IsHopeless(true, bad, {Flat(0.9), Flat(0.9)}));
  EXPECT_TRUE(IsHopeless(true, bad, {Flat(0.9), Flat(0.9), Flat(0.9)}));
  EXPECT_FALSE(IsHopeless(true, bad, {Flat(0.9), Flat(0.9), {{20, 0.9}}})) << "the third was not evaluated by then";
  EXPECT_FALSE(IsHopeless(true, {}, {Flat(0.9), Flat(0.9), Flat(0.9)}));
}

TEST(MedianRuleTest, TheBestValueSoFarIsHeldAgainstTheMedian) {
  const std::vector<Curve> finished = {Flat(0.2), Flat(0.5), Flat(0.8)};
  EXPECT_FALSE(IsHopeless(true, {{10, 0.6}, {20, 0.1}}, finished)) << "it was good once";
  EXPECT_TRUE(IsHopeless(true, {{10, 0.4}}, finished));
  EXPECT_FALSE(IsHopeless(true, {{10, 0.5}}, finished)) << "no worse";
  EXPECT_FALSE(IsHopeless(false, {{10, 0.4}}, finished)) << "less is better";
  EXPECT_TRUE(IsHopeless(false, {{10, 0.6}}, finished));
}

// Of an even number it is the mean of both in the middle: less and more are judged by the same rule.
TEST(MedianRuleTest, IsTheSameWhicheverIsBetter) {
  const std::vector<Curve> finished = {Flat(0.2), Flat(0.4), Flat(0.6), Flat(0.8)};
  for (const double value : {0.3, 0.45, 0.5, 0.55, 0.7}) {
    EXPECT_EQ(IsHopeless(true, {{10, value}}, finished), value < 0.5) << value;
    EXPECT_EQ(IsHopeless(false, {{10, value}}, finished), value > 0.5) << value;
  }
}

TEST(MedianRuleTest, WhatOthersReachedLaterDoesNotCount) {
  const Curve slow = {{10, 0.1}, {20, 0.9}};
  EXPECT_FALSE(IsHopeless(true, {{10, 0.3}}, {slow, slow, slow}));
}

TEST(BestTrialTest, StandsFirstAndItsFolderIsNamed) {
  const auto trial = [](int number, std::optional<double> objective) {
    return Job{.name = TrialName("t", number), .state = JobState::kSucceeded, .trial = Trial{.objective = objective}};
  };
  const std::vector<Job> trials = {trial(1, 0.3), trial(2, std::nullopt), trial(3, 0.9), trial(4, 0.5)};
  for (const bool maximize : {true, false}) {
    const nlohmann::json output = OutputOf({.maximize = maximize, .metric = "auc"}, trials, "/jobs/t");
    std::vector<std::string> ids;
    for (const auto& shown : output["trials"]) ids.push_back(shown["trialId"]);
    EXPECT_EQ(ids, maximize ? (std::vector<std::string>{"3", "4", "1", "2"})
                            : (std::vector<std::string>{"1", "4", "3", "2"}));
    EXPECT_EQ(output["bestTrialFolder"], maximize ? "/jobs/t/trials/3" : "/jobs/t/trials/1");
    EXPECT_EQ(output["completedTrialCount"], "4");
    EXPECT_EQ(SearchProgress({.maximize = maximize, .metric = "auc", .most_trials = 9}, trials),
              nlohmann::json({{"over", 4},
                              {"wanted", 9},
                              {"running", 0},
                              {"failed", 0},
                              {"metric", "auc"},
                              {"best", maximize ? 0.9 : 0.3}}));
  }
}

TEST(SearchProgressTest, CountsWhatIsOverAndHasNoBestBeforeATrialHasOne) {
  const Trial untold{.metric = "auc"};
  const std::vector<Job> trials = {{.name = "t/1", .state = JobState::kFailed, .trial = untold},
                                   {.name = "t/2", .state = JobState::kRunning, .trial = untold},
                                   {.name = "t/3", .state = JobState::kQueued, .trial = untold}};
  EXPECT_EQ(SearchProgress({.metric = "auc", .most_trials = 5}, trials),
            nlohmann::json({{"over", 1}, {"wanted", 5}, {"running", 1}, {"failed", 1}, {"metric", "auc"}}));
}

}  // namespace
}  // namespace downpour
