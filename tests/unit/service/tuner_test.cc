// What a search finds out about itself. All else of it: tuning_lifecycle_test.cc, tests/process/test_tuning.py.
#include "service/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "job/job_file.h"
#include "service/lifecycle.h"
#include "tests/unit/job/job_text.h"
#include "tests/unit/tools/scratch_folder.h"

namespace downpour {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class TunerTest : public testing::Test {
 protected:
  TunerTest() {
    const json search = {
        {"goal", "MINIMIZE"},
        {"algorithm", "RANDOM_SEARCH"},
        {"hyperparameterMetricTag", "rmse"},
        {"maxTrials", 9},
        {"params", {{{"parameterName", "rate"}, {"type", "DOUBLE"}, {"minValue", 0.1}, {"maxValue", 1}}}}};
    const json input = {{"pythonModule", "trainer.task"}, {"hyperparameters", search}};
    const Job job{.name = "line", .training_input = input.dump(), .state = JobState::kPreparing};
    EXPECT_TRUE(store_->Insert(job).ok());
    EXPECT_TRUE(Work().ok());
    EXPECT_EQ(store_->Trials("line")->size(), 1u);
    std::filesystem::create_directories(trial_ + "/python");
    std::ofstream(trial_ + "/python/job.json") << CanonicalJob(ParseJob(kJob, "j.yaml").job);
  }
  // By a service that has just begun.
  absl::Status Work() { return Tuner(folder_.path(), store_.get(), &mutex_).Work("line"); }
  JobState TrialState() { return store_->Find("line/1")->state; }

  const ScratchFolder folder_;
  const std::string trial_ = folder_.path() + "/jobs/line/trials/1";
  const std::unique_ptr<JobStore> store_ = JobStore::Open(folder_.path() + "/jobs.sqlite").value();
  std::mutex mutex_;
};

TEST_F(TunerTest, WhyNoTrialCanBeJudgedIsKnownToALaterService) {
  EXPECT_TRUE(Work().ok());
  EXPECT_EQ(TrialState(), JobState::kCancelled);
  std::filesystem::remove_all(trial_);
  EXPECT_TRUE(Work().ok());
  EXPECT_EQ(store_->Trials("line")->size(), 1u) << "another trial could be judged no better";
  EXPECT_EQ(store_->Find("line")->state, JobState::kFailed);
  EXPECT_THAT(store_->Find("line")->error,
              HasSubstr("hyperparameterMetricTag is rmse, but the Python code of trial 1"));
}

TEST_F(TunerTest, NoTrialIsCancelledBeforeItIsKnownWhy) {
  const std::string own = folder_.path() + "/jobs/line/service";
  std::filesystem::rename(own, own + ".away");
  std::ofstream{own};  // no file can be written below it
  EXPECT_FALSE(Work().ok());
  EXPECT_EQ(TrialState(), JobState::kQueued);
  std::filesystem::remove(own);
  std::filesystem::rename(own + ".away", own);
  EXPECT_TRUE(Work().ok());
  EXPECT_EQ(TrialState(), JobState::kCancelled);
}

}  // namespace
}  // namespace downpour
