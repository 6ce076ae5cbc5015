#include "predict/live_predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "tests/unit/predict/made_predictor.h"

namespace downpour {
namespace {

using Clock = LiveValues::Clock;

// The model that JobWithColumns has, all of whose weights are `weight`.
class LivePredictorTest : public testing::Test {
 protected:
  LivePredictorTest() {
    job_ = std::make_shared<const JobSpec>(JobWithColumns());
    grid_ = std::make_shared<const SliceGrid>(GridOf(job_->model).value());
  }
  ValueSet Set(uint64_t version, float weight) const {
    ValueSet set{.job = job_, .grid = grid_, .versions = {}, .values = {}, .as_of = {}};
    for (const Slice& slice : grid_->slices) {
      std::vector<float> numbers(static_cast<size_t>(slice.elements), slice.variable == 0 ? weight : 0);
      set.versions.push_back({{1, 1}, version});
      set.values.push_back(Payload::CopyOf(numbers.data(), numbers.size() * sizeof(float)));
    }
    return set;
  }
  float Answer(const Predictor& predictor) const {
    const double places[] = {1, 1, 1};
    const std::vector<FieldValue> ages = {50.0}, jobs = {std::string_view("cook")}, place = {FieldList(places)};
    const auto answer = predictor.Predict({1, {{"job", 1, jobs}, {"place", 1, place}, {"age", 1, ages}}});
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? std::get<std::vector<float>>(answer->Find("prediction")->values)[0] : -1;
  }
  // Age, one of the jobs and three places count 1 each; then the label's scale.
  static float Right(float weight) { return 10 * 5 * weight + 100; }

  std::shared_ptr<const JobSpec> job_;
  std::shared_ptr<const SliceGrid> grid_;
  std::shared_ptr<LiveValues> values_ = std::make_shared<LiveValues>("runs/first", 65536, nullptr);
};

TEST_F(LivePredictorTest, AnswersByTheNewestSet) {
  EXPECT_EQ(values_->Now().predictor, nullptr);
  ASSERT_TRUE(values_->Publish(Set(1, 1), Clock::now()).ok());
  const LivePredictor predictor(values_, [] {});
  EXPECT_NEAR(Answer(predictor), Right(1), 1e-3);
  for (int version = 2; version < 10; ++version) {
    ASSERT_TRUE(values_->Publish(Set(version, static_cast<float>(version)), Clock::now()).ok());
    EXPECT_NEAR(Answer(predictor), Right(static_cast<float>(version)), 1e-3);
  }
  EXPECT_EQ(predictor.signature().inputs.size(), 3u);
  EXPECT_EQ(predictor.origin(), "runs/first");
  EXPECT_EQ(predictor.bytes_held(), 4 * values_->Now().predictor->bytes_held()) << "three copies, and what was read";
}

// A copy that is still read is not written to.
TEST_F(LivePredictorTest, WhatIsBeingAnsweredKeepsItsSet) {
  ASSERT_TRUE(values_->Publish(Set(1, 1), Clock::now()).ok());
  const LiveValues::Current read = values_->Now();
  for (int version = 2; version < 6; ++version) {
    ASSERT_TRUE(values_->Publish(Set(version, static_cast<float>(version)), Clock::now()).ok());
  }
  EXPECT_NEAR(Answer(*read.predictor), Right(1), 1e-3);
}

TEST_F(LivePredictorTest, NoAnswerMixesSets) {
  ASSERT_TRUE(values_->Publish(Set(1, 1), Clock::now()).ok());
  const LivePredictor predictor(values_, [] {});
  std::atomic<bool> ends = false;
  std::thread asks([&] {
    while (!ends) {
      const float weight = (Answer(predictor) - 100) / 50;
      ASSERT_NEAR(weight, std::round(weight), 1e-3);  // all weights of a set are one whole number
    }
  });
  for (int version = 2; version < 2000; ++version) {
    ASSERT_TRUE(values_->Publish(Set(version, static_cast<float>(version % 64)), Clock::now()).ok());
  }
  ends = true;
  asks.join();
}

TEST_F(LivePredictorTest, WhatIsReadAgainUnchangedIsYounger) {
  const Clock::time_point long_ago = Clock::now() - std::chrono::hours(1);
  ASSERT_TRUE(values_->Publish(Set(1, 1), long_ago).ok());
  const LivePredictor predictor(values_, [] {});
  EXPECT_GE(*predictor.age_seconds(), 3600);
  const auto before = values_->Now().predictor;
  ASSERT_TRUE(values_->Publish(Set(1, 1), long_ago + std::chrono::minutes(59)).ok());
  EXPECT_LT(*predictor.age_seconds(), 3600);
  EXPECT_EQ(values_->Now().predictor, before) << "and is no other copy";
}

TEST_F(LivePredictorTest, RoundedValuesAreWidened) {
  SliceGrid rounded = *grid_;
  rounded.wire = WireFormat::kBf16;
  ValueSet set = Set(1, 0);
  set.grid = std::make_shared<const SliceGrid>(rounded);
  for (size_t i = 0; i < set.values.size(); ++i) {
    const uint16_t two = i == 0 ? 0x4000 : 0;  // as bfloat16
    const std::vector<uint16_t> halves(static_cast<size_t>(rounded.slices[i].elements), two);
    set.values[i] = Payload::CopyOf(halves.data(), halves.size() * sizeof(uint16_t));
  }
  ASSERT_TRUE(values_->Publish(set, Clock::now()).ok());
  EXPECT_NEAR(Answer(LivePredictor(values_, [] {})), Right(2), 1e-3);
}

TEST_F(LivePredictorTest, ItsEndIsSaid) {
  ASSERT_TRUE(values_->Publish(Set(1, 1), Clock::now()).ok());
  bool has_ended = false;
  {
    const LivePredictor predictor(values_, [&] { has_ended = true; });
  }
  EXPECT_TRUE(has_ended);
}

TEST_F(LivePredictorTest, PythonCodeIsRefusedByName) {
  ValueSet set = Set(1, 1);
  JobSpec own = *job_;
  own.model.layers.clear();
  own.model.variables = {{"w", {2}}};
  set.job = std::make_shared<const JobSpec>(own);
  EXPECT_EQ(values_->Publish(set, Clock::now()).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace downpour
