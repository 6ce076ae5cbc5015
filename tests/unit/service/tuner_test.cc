// What a search finds out about itself. All else of it: tuning_lifecycle_test.cc, tests/process/test_tuning.py.
#include "service/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "job/job_file.h"
#include "service/lifecycle.h"
#include "service/run_folder.h"
#include "tests/unit/job/job_text.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class TunerTest : public testing::Test {
 protected:
  TunerTest() {
    InsertSearch("line", "RANDOM_SEARCH");
    EXPECT_TRUE(Work().ok());
    EXPECT_EQ(store_->Trials("line")->size(), 1u);
    std::filesystem::create_directories(trial_ + "/python");
    std::ofstream(trial_ + "/python/job.json") << CanonicalJob(ParseJob(kJob, "j.yaml").job);
  }
  void InsertSearch(const std::string& name, const std::string& algorithm) {
    const json search = {
        {"goal", "MINIMIZE"},
        {"algorithm", algorithm},
        {"hyperparameterMetricTag", "rmse"},
        {"maxTrials", 9},
        {"params", {{{"parameterName", "rate"}, {"type", "DOUBLE"}, {"minValue", 0.1}, {"maxValue", 1}}}}};
    const json input = {{"pythonModule", "trainer.task"}, {"hyperparameters", search}};
    const Job job{.name = name, .training_input = input.dump(), .state = JobState::kPreparing};
    EXPECT_TRUE(store_->Insert(job).ok());
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

TEST_F(TunerTest, TheNextSearchOfThatNameIsJudgedByItsOwnCode) {
  Tuner tuner(folder_.path(), store_.get(), &mutex_);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(tuner.Work("line").ok());
  ASSERT_EQ(store_->Find("line")->state, JobState::kFailed);
  EXPECT_TRUE(store_->Remove("line").ok());
  std::filesystem::remove_all(folder_.path() + "/jobs/line");
  InsertSearch("line", "RANDOM_SEARCH");
  EXPECT_TRUE(tuner.Work("line").ok());
  EXPECT_EQ(store_->Find("line")->state, JobState::kRunning);
  EXPECT_EQ(store_->Trials("line")->size(), 1u);
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

TEST_F(TunerTest, ASearchThatHasToDoWithoutOptunaSaysSo) {
  setenv("DOWNPOUR_PYTHON", "/bin/false", 1);
  InsertSearch("blind", "ALGORITHM_UNSPECIFIED");
  Tuner tuner(folder_.path(), store_.get(), &mutex_);
  EXPECT_TRUE(tuner.Work("blind").ok());
  unsetenv("DOWNPOUR_PYTHON");
  EXPECT_EQ(store_->Trials("blind")->size(), 1u);
  EXPECT_THAT(tuner.troubles().at("blind"), HasSubstr("random search is used instead of Bayesian: Optuna"));
}

TEST_F(TunerTest, TheNextSearchOfThatNameAsksOptunaAgain) {
  const std::string asked = folder_.path() + "/asked";
  const std::string python = folder_.Write("python", "#!/bin/sh\n: > " + asked + "\n");
  ASSERT_EQ(chmod(python.c_str(), 0700), 0);
  setenv("DOWNPOUR_PYTHON", "/bin/false", 1);
  InsertSearch("blind", "ALGORITHM_UNSPECIFIED");
  Tuner tuner(folder_.path(), store_.get(), &mutex_);
  EXPECT_TRUE(tuner.Work("blind").ok());
  for (const char* name : {"blind/1", "blind"}) {
    Job job = store_->Find(name).value();
    EXPECT_TRUE(Cancel(1, &job).ok());
    EXPECT_TRUE(store_->Update(job).ok());
  }
  EXPECT_TRUE(tuner.Work("blind").ok());
  EXPECT_EQ(store_->Find("blind")->state, JobState::kCancelled);
  EXPECT_TRUE(store_->Remove("blind").ok());
  std::filesystem::remove_all(JobFolderOf(folder_.path(), "blind"));
  setenv("DOWNPOUR_PYTHON", python.c_str(), 1);
  InsertSearch("blind", "ALGORITHM_UNSPECIFIED");
  EXPECT_TRUE(tuner.Work("blind").ok());
  unsetenv("DOWNPOUR_PYTHON");
  EXPECT_TRUE(std::filesystem::exists(asked));
}

TEST_F(TunerTest, ASearchThatIsCancelledWhileOptunaIsAskedHasNoMoreTrials) {
  const std::string asked = folder_.path() + "/asked", answered = folder_.path() + "/answered";
  const std::string python = folder_.Write("python", "#!/bin/sh\n: > " + asked + "\nread word < " + answered + "\n");
  ASSERT_EQ(chmod(python.c_str(), 0700), 0);
  ASSERT_EQ(mkfifo(answered.c_str(), 0600), 0);
  setenv("DOWNPOUR_PYTHON", python.c_str(), 1);
  InsertSearch("late", "ALGORITHM_UNSPECIFIED");
  std::thread works([&] { EXPECT_TRUE(Tuner(folder_.path(), store_.get(), &mutex_).Work("late").ok()); });
  while (!std::filesystem::exists(asked)) poll(nullptr, 0, 5);
  {
    const std::lock_guard hold(mutex_);
    Job job = store_->Find("late").value();
    EXPECT_TRUE(Cancel(1, &job).ok());
    EXPECT_TRUE(store_->Update(job).ok());
  }
  std::ofstream(answered) << "\n";
  works.join();
  unsetenv("DOWNPOUR_PYTHON");
  EXPECT_TRUE(store_->Trials("late")->empty());
}

}  // namespace
}  // namespace downpour
