#include "service/submission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "service/lifecycle.h"
#include "service/tuner.h"
#include "tests/unit/job/job_text.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SubmissionTest : public testing::Test {
 protected:
  SubmissionTest() { LoseTheStore(); }
  void LoseTheStore() {
    store_.reset();
    for (const char* more : {"", "-wal", "-shm"}) fs::remove(folder_.path() + "/jobs.sqlite" + more);
    store_ = JobStore::Open(folder_.path() + "/jobs.sqlite").value();
  }
  RunFolder FolderOf(const std::string& name) const { return RunFolder(JobFolderOf(folder_.path(), name)); }
  Job Submitted(const std::string& name, int64_t created_ms = 1'000) {
    return {.name = name,
            .id = NewSubmissionId(),
            .labels = {{"team", "a"}},
            .job_file = kJob,
            .settings = R"({"training.epochs":3})",
            .state = JobState::kPreparing,
            .created_ms = created_ms};
  }
  void Mark(const Job& job, const std::string& name, const std::string& text) {
    std::ofstream(FolderOf(job.name).Own(name)) << text;
  }
  std::vector<std::string> TakeUp() { return TakeUpLostJobs(folder_.path(), store_.get()).value(); }

  const ScratchFolder folder_;
  std::unique_ptr<JobStore> store_;
};

TEST_F(SubmissionTest, AFolderIsOfTheOneThatClaimedItFirst) {
  const Job first = Submitted("one"), second = Submitted("one");
  const RunFolder folder = FolderOf("one");
  EXPECT_TRUE(IsFolderOf(second, folder)) << "nothing is there";
  ASSERT_TRUE(ClaimFolder(first, folder).ok());
  EXPECT_TRUE(ClaimFolder(first, folder).ok()) << "as by a service that was killed on the way";
  EXPECT_TRUE(IsFolderOf(first, folder));
  EXPECT_FALSE(IsFolderOf(second, folder));
  const absl::Status refused = ClaimFolder(second, folder);
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(folder.job_dir() + " is of another submission: move that away"));
}

TEST_F(SubmissionTest, AFolderOfAnEarlierReleaseIsThatOfItsRow) {
  Job before = Submitted("one");
  before.id.clear();
  ASSERT_TRUE(ClaimFolder(before, FolderOf("one")).ok());
  Mark(before, "started", "1");
  EXPECT_TRUE(IsFolderOf(before, FolderOf("one")));
  EXPECT_FALSE(IsFolderOf(Submitted("one"), FolderOf("one")));
}

TEST_F(SubmissionTest, AJobThatTheStoreLostIsTakenUpAsItWasSubmitted) {
  Job job = Submitted("one");
  ASSERT_TRUE(ClaimFolder(job, FolderOf("one")).ok());
  Mark(job, "started", "1");
  EXPECT_THAT(TakeUp(), ElementsAre(HasSubstr("the job one was found in " + FolderOf("one").job_dir())));
  const Job found = store_->Find("one").value();
  EXPECT_EQ(ResourceOf(found)["jobFile"], kJob);
  EXPECT_EQ(found.settings, job.settings);
  EXPECT_EQ(found.labels, job.labels);
  EXPECT_EQ(found.id, job.id);
  EXPECT_EQ(found.created_ms, 1'000);
  EXPECT_EQ(found.state, JobState::kPreparing) << "its run is to be looked at";
  EXPECT_THAT(TakeUp(), IsEmpty());
}

TEST_F(SubmissionTest, OneThatIsOverIsAsItEndedAndOneThatIsBeingCancelledIsStill) {
  Job over = Submitted("over"), told = Submitted("told"), waits = Submitted("waits");
  for (const Job& job : {over, told, waits}) {
    ASSERT_TRUE(ClaimFolder(job, FolderOf(job.name)).ok());
    ASSERT_TRUE(store_->Insert(job).ok());
  }
  over.state = JobState::kFailed;
  over.error = "why";
  over.ended_ms = 9;
  ASSERT_TRUE(KeepJob(over, FolderOf("over"), store_.get()).ok());
  Mark(told, "started", "1");
  told.state = JobState::kCancelling;
  told.error = "cancelled on request";
  told.started_ms = 7;
  ASSERT_TRUE(KeepJob(told, FolderOf("told"), store_.get()).ok());
  LoseTheStore();
  EXPECT_EQ(TakeUp().size(), 3u);
  EXPECT_EQ(store_->Find("over")->state, JobState::kFailed);
  EXPECT_EQ(store_->Find("over")->error, "why");
  EXPECT_EQ(store_->Find("told")->state, JobState::kCancelling);
  EXPECT_EQ(store_->Find("told")->error, "cancelled on request");
  EXPECT_EQ(store_->Find("told")->started_ms, 7);
  EXPECT_EQ(store_->Find("waits")->state, JobState::kQueued);
}

TEST_F(SubmissionTest, ThoseThatWaitHaveTheirPlacesInTheQueueAgain) {
  for (const auto& [name, created_ms] : {std::pair("b", 3'000), std::pair("a", 4'000), std::pair("long", 2'000)}) {
    ASSERT_TRUE(ClaimFolder(Submitted(name, created_ms), FolderOf(name)).ok());
  }
  EXPECT_EQ(TakeUp().size(), 3u);
  std::vector<std::string> queue;
  const std::vector<Job> unfinished = store_->Unfinished().value();
  for (const Job& job : unfinished) queue.push_back(job.name);
  EXPECT_THAT(queue, ElementsAre("long", "b", "a"));
}

TEST_F(SubmissionTest, ALaterSubmissionReplacesTheRowOfAnOlderStore) {
  const Job earlier = Submitted("one", 1'000), later = Submitted("one", 2'000);
  ASSERT_TRUE(store_->Insert(earlier).ok());
  ASSERT_TRUE(ClaimFolder(later, FolderOf("one")).ok());
  EXPECT_THAT(TakeUp(), ElementsAre(HasSubstr("the store of jobs had an earlier one of that name")));
  EXPECT_EQ(store_->Find("one")->id, later.id);
}

TEST_F(SubmissionTest, ARowIsNotGivenToTheFolderOfAnEarlierSubmission) {
  const Job earlier = Submitted("one", 1'000), later = Submitted("one", 2'000);
  ASSERT_TRUE(store_->Insert(later).ok());
  ASSERT_TRUE(ClaimFolder(earlier, FolderOf("one")).ok());
  EXPECT_THAT(TakeUp(), ElementsAre(HasSubstr("it is left as it is")));
  EXPECT_EQ(store_->Find("one")->id, later.id);
}

TEST_F(SubmissionTest, WhatDoesNotTellWhatWasSubmittedIsLeftAsideByName) {
  const Job job = Submitted("one");
  ASSERT_TRUE(ClaimFolder(job, FolderOf("one")).ok());
  for (const char* text : {"", "[", "{}", R"({"id": 3})"}) {
    Mark(job, "submission.json", text);
    EXPECT_THAT(TakeUp(), ElementsAre(HasSubstr("it is left as it is. Move it away")));
  }
  EXPECT_TRUE(absl::IsNotFound(store_->Find("one").status()));
}

TEST_F(SubmissionTest, ASearchHasItsTrialsAgainInTheirOrder) {
  Job search = Submitted("s");
  search.job_file.clear();
  search.training_input = R"({"pythonModule":"m","packageUris":["gs://models/p.tar.gz"],"hyperparameters":)"
                          R"({"goal":"MINIMIZE","maxTrials":20,"params":[{"parameterName":"rate","type":"INTEGER",)"
                          R"("minValue":1,"maxValue":9}]}})";
  ASSERT_TRUE(ClaimFolder(search, FolderOf("s")).ok());
  std::vector<Job> trial_of;
  for (int number = 1; number <= 10; ++number) {
    Job trial = Submitted(TrialName("s", number));
    trial.trial = Trial{.values = {{"rate", "1"}}, .units = {0.5}, .metric = "loss"};
    ASSERT_TRUE(ClaimFolder(trial, FolderOf(trial.name)).ok());
    trial_of.push_back(trial);
  }
  Job stopped = trial_of.at(1);
  stopped.state = JobState::kRunning;
  StopEarly(5, &stopped);
  ASSERT_TRUE(store_->Insert(stopped).ok());
  ASSERT_TRUE(KeepJob(stopped, FolderOf("s/2"), store_.get()).ok());
  search.state = JobState::kCancelling;
  ASSERT_TRUE(store_->Insert(search).ok());
  ASSERT_TRUE(KeepJob(search, FolderOf("s"), store_.get()).ok());
  LoseTheStore();
  EXPECT_EQ(TakeUp().size(), 11u);
  EXPECT_EQ(store_->Find("s")->state, JobState::kCancelling) << "it is not continued";
  EXPECT_EQ(store_->Find("s/2")->state, JobState::kCancelling);
  EXPECT_TRUE(store_->Find("s/2")->trial->stopped_early) << "it ends as a success";
  const std::vector<Job> trials = store_->Trials("s").value();
  ASSERT_EQ(trials.size(), 10u);
  for (int number = 1; number <= 10; ++number) EXPECT_EQ(TrialNumber(trials[number - 1].name), number);
  EXPECT_EQ(trials[0].trial->metric, "loss");
}

}  // namespace
}  // namespace downpour
