#include "worker/python/question_size.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace downpour {
namespace {

using nlohmann::json;

JobSpec JobOf(int64_t examples, int64_t batch_size, int64_t push_every) {
  JobSpec job;
  job.data.train_examples = examples;
  job.training.batch_size = batch_size;
  job.training.push_every = push_every;
  return job;
}

// As python_computer.cc makes it, of the examples with the highest numbers.
size_t SizeAsAsked(const JobSpec& job) {
  const uint64_t most = ExamplesOfQuestion(job), end = static_cast<uint64_t>(job.data.train_examples);
  json batches = json::array(), ids = json::array();
  for (uint64_t id = end - most; id < end; ++id) {
    ids.push_back(id);
    if (ids.size() < static_cast<size_t>(job.training.batch_size) && id + 1 < end) continue;
    batches.push_back({{"examples", std::exchange(ids, json::array())}, {"seed", UINT64_MAX}});
  }
  const json next = static_cast<size_t>(job.training.batch_size) > kMostAhead ? json() : batches[0];
  return json{{"train", {{"batches", batches}, {"set", 1}, {"next", next}}}}.dump().size();
}

TEST(QuestionSizeTest, IsAtLeastWhatIsAskedAndLittleMore) {
  const int64_t cases[][3] = {{9, 4, 1},    {9, 100, 1},          {1000, 10, 100},
                              {1001, 7, 3}, {100'000, 1, 50'000}, {200'000, 100'000, 2}};
  for (const auto& [examples, batch_size, push_every] : cases) {
    const JobSpec job = JobOf(examples, batch_size, push_every);
    const size_t asked = SizeAsAsked(job);
    EXPECT_GE(LargestQuestion(job), asked) << examples;
    const uint64_t batches = ExamplesOfQuestion(job) / static_cast<uint64_t>(batch_size) + 3;
    EXPECT_LE(LargestQuestion(job), asked + 64 + 64 * batches) << examples;
  }
}

TEST(QuestionSizeTest, OfLocalStepsEachBatchIsAskedByItself) {
  JobSpec job = JobOf(10'000'000, 1000, 1);
  EXPECT_LT(LargestQuestion(job), 32'000u);
  job.training.push_every = 4000;
  EXPECT_GT(LargestQuestion(job), kMostQuestionBytes);
  job.training.push_every = 1;
  job.training.local_steps = 4000;
  EXPECT_LT(LargestQuestion(job), 32'000u);
}

}  // namespace
}  // namespace downpour
