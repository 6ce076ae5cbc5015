// What is shown of a job that is over, and whose folder is at work again.
#include "service/resumed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cluster/job_folder.h"
#include "service/submission.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::HasSubstr;

class ResumedTest : public testing::Test {
 protected:
  ResumedTest() {
    EXPECT_TRUE(ClaimFolder(job_, run_).ok());
    job_.state = JobState::kFailed;
    job_.error = "it was killed";
    job_.ended_ms = 1000;
  }
  Job Shown() const {
    Job shown = job_;
    ShowWhatItsFolderDoes(run_, &shown);
    return shown;
  }
  void Summarize(const std::string& state, const std::string& error) const {
    std::ofstream(run_.job_dir() + "/summary.json")
        << R"({"state": ")" << state << R"(", "errorMessage": ")" << error << R"("})";
  }

  const ScratchFolder folder_;
  const RunFolder run_{folder_.path() + "/jobs/one"};
  Job job_ = {.name = "one", .id = NewSubmissionId()};
};

TEST_F(ResumedTest, OneThatNobodyResumedIsAsItEnded) {
  EXPECT_EQ(Shown().state, JobState::kFailed);
  EXPECT_EQ(Shown().error, "it was killed");
}

TEST_F(ResumedTest, ItRunsWhileItsFolderIsHeld) {
  const absl::StatusOr<UniqueFd> claim = ClaimJobFolder(run_.job_dir());
  ASSERT_TRUE(claim.ok());
  EXPECT_TRUE(IsResumed(job_, run_));
  const Job shown = Shown();
  EXPECT_EQ(shown.state, JobState::kRunning);
  EXPECT_EQ(shown.error, "");
  EXPECT_EQ(shown.ended_ms, 0);
  EXPECT_THAT(shown.state_message, HasSubstr("`downpour stop --job-dir " + run_.job_dir() + "` ends it"));
}

TEST_F(ResumedTest, ThenItIsAsThatEnded) {
  Summarize("SUCCEEDED", "");
  const Job shown = Shown();
  EXPECT_EQ(shown.state, JobState::kSucceeded);
  EXPECT_EQ(shown.error, "");
  EXPECT_EQ(shown.ended_ms, run_.SummaryWrittenMs());
  Summarize("FAILED", "again");
  EXPECT_EQ(Shown().error, "again");
}

TEST_F(ResumedTest, ASummaryOfBeforeItsEndSaysNothing) {
  Summarize("SUCCEEDED", "");
  job_.ended_ms = run_.SummaryWrittenMs();
  EXPECT_EQ(Shown().state, JobState::kFailed);
  job_.ended_ms = 1000;
  Summarize("RUNNING", "");
  EXPECT_EQ(Shown().state, JobState::kFailed) << "no end of a job";
  std::ofstream(run_.job_dir() + "/summary.json") << "{";
  EXPECT_EQ(Shown().state, JobState::kFailed);
}

TEST_F(ResumedTest, AnotherSubmissionsFolderSaysNothing) {
  const absl::StatusOr<UniqueFd> claim = ClaimJobFolder(run_.job_dir());
  Summarize("SUCCEEDED", "");
  job_.id = NewSubmissionId();
  EXPECT_EQ(Shown().state, JobState::kFailed);
}

// The service ends them by itself, and their run may be at its last words.
TEST_F(ResumedTest, TrialsAndJobsThatAreNotOverAreAsStored) {
  const absl::StatusOr<UniqueFd> claim = ClaimJobFolder(run_.job_dir());
  for (const JobState state : {JobState::kQueued, JobState::kRunning, JobState::kCancelling, JobState::kSucceeded}) {
    job_.state = state;
    EXPECT_EQ(Shown().state, state);
  }
  job_.state = JobState::kFailed;
  job_.trial = Trial();
  EXPECT_EQ(Shown().state, JobState::kFailed);
}

}  // namespace
}  // namespace downpour
