#include "service/job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <nlohmann/json.hpp>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

class JobStoreTest : public testing::Test {
 protected:
  JobStoreTest() { Reopen(); }
  void Reopen() {
    store_.reset();
    store_ = JobStore::Open(folder_.path() + "/jobs.sqlite").value();
  }
  ScratchFolder folder_;
  std::unique_ptr<JobStore> store_;
};

Job Filled() {
  return {.name = "first",
          .id = "5",
          .labels = {{"team", "it's \"ours\""}},
          .training_input = R"({"pythonModule":"a.b"})",
          .job_file = "name: x",
          .settings = R"({"training.epochs":3})",
          .state = JobState::kCancelling,
          .error = "because",
          .created_ms = 1,
          .started_ms = 2,
          .ended_ms = 0,
          .revision = 7};
}

TEST_F(JobStoreTest, ATrialIsKeptByItsJobAndGoesWithIt) {
  for (const char* name : {"t", "t1", "t/1", "t0"}) {
    Job job = Filled();
    job.name = name;
    if (TrialNumber(name) != 0) {
      job.trial = Trial{.values = {{"rate", "0.1"}},
                        .units = {0.25},
                        .metric = "auc",
                        .objective = 0.5,
                        .step = 9,
                        .stopped_early = true};
    }
    ASSERT_TRUE(store_->Insert(job).ok());
  }
  Reopen();
  const std::vector<Job> trials = store_->Trials("t").value();
  ASSERT_EQ(trials.size(), 1u);
  EXPECT_EQ(TextOf(trials[0].trial),
            R"({"metric":"auc","objective":0.5,"step":9,"stoppedEarly":true,"units":[0.25],"values":{"rate":"0.1"}})");
  EXPECT_EQ(store_->All()->size(), 3u) << "a list shows no trials";
  EXPECT_EQ(store_->Unfinished()->size(), 4u);
  ASSERT_TRUE(store_->Remove("t").ok());
  EXPECT_TRUE(store_->Trials("t")->empty());
  EXPECT_EQ(store_->All()->size(), 2u);
}

TEST_F(JobStoreTest, AStoreOfAnEarlierVersionGetsWhatItLacks) {
  ASSERT_TRUE(store_->Insert(Filled()).ok());
  store_.reset();
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open((folder_.path() + "/jobs.sqlite").c_str(), &database), SQLITE_OK);
  const char* kVersion2 =
      "ALTER TABLE jobs DROP COLUMN id; ALTER TABLE jobs DROP COLUMN settings; PRAGMA user_version=2";
  ASSERT_EQ(sqlite3_exec(database, kVersion2, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  Reopen();
  EXPECT_EQ(store_->Find("first")->settings, "{}");
  EXPECT_EQ(store_->Find("first")->id, "");
  store_.reset();
  ASSERT_EQ(sqlite3_open((folder_.path() + "/jobs.sqlite").c_str(), &database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(database, kVersion2, nullptr, nullptr, nullptr), SQLITE_OK);
  const char* kVersion1 = "ALTER TABLE jobs DROP COLUMN trial; PRAGMA user_version=1";
  ASSERT_EQ(sqlite3_exec(database, kVersion1, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  Reopen();
  EXPECT_EQ(store_->Find("first")->error, "because");
}

TEST_F(JobStoreTest, KeepsEveryFieldOverARestart) {
  ASSERT_TRUE(store_->Insert(Filled()).ok());
  Reopen();
  const Job job = store_->Find("first").value(), filled = Filled();
  EXPECT_EQ(ResourceOf(job), ResourceOf(filled));
  EXPECT_EQ(job.job_file, filled.job_file);
  EXPECT_EQ(job.revision, filled.revision);
  EXPECT_EQ(job.id, filled.id);
  EXPECT_EQ(job.settings, filled.settings);
}

TEST_F(JobStoreTest, NamesAreUnique) {
  ASSERT_TRUE(store_->Insert(Filled()).ok());
  EXPECT_EQ(store_->Insert(Filled()).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->All()->size(), 1u);
  ASSERT_TRUE(store_->Remove("first").ok());
  EXPECT_TRUE(store_->Insert(Filled()).ok());
}

TEST_F(JobStoreTest, ListsInTheOrderOfSubmission) {
  for (const char* name : {"b", "a", "c"}) ASSERT_TRUE(store_->Insert({.name = name}).ok());
  Job over = store_->Find("a").value();
  over.state = JobState::kFailed;
  over.ended_ms = 5;
  ASSERT_TRUE(store_->Update(over).ok());
  const auto names = [](const std::vector<Job>& jobs) {
    std::vector<std::string> found;
    for (const Job& job : jobs) found.push_back(job.name);
    return found;
  };
  EXPECT_THAT(names(store_->All().value()), testing::ElementsAre("b", "a", "c"));
  EXPECT_THAT(names(store_->Unfinished().value()), testing::ElementsAre("b", "c"));
}

TEST_F(JobStoreTest, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(store_->Find("none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Update({.name = "none"}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Remove("none").code(), absl::StatusCode::kNotFound);
}

TEST_F(JobStoreTest, AFileThatIsNoStoreIsRefusedByName) {
  const std::string path = folder_.Write("other", std::string(5000, 'x'));
  const absl::Status status = JobStore::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(path));
}

}  // namespace
}  // namespace downpour
