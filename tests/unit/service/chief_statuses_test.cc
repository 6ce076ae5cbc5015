#include "service/chief_statuses.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/cluster/fake_chief.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

class ChiefStatusesTest : public testing::Test {
 protected:
  ScratchFolder folder_;
  std::atomic<int> questions_ = 0;
  FakeChief chief_{[this] {
    ++questions_;
    return Encode(StatusReply{R"({"state": "RUNNING", "chief": {"pid": 7}})"});
  }};
  const Job job_{.name = "a", .state = JobState::kRunning};
  void NameTheChief() const {
    folder_.Write("chief.json", absl::StrCat(R"({"endpoint": ")", chief_.endpoint(), R"(", "pid": 7, "term": 3})"));
  }
};

TEST_F(ChiefStatusesTest, OneQuestionServesAllWhoLookMeanwhile) {
  NameTheChief();
  ChiefStatuses statuses(std::chrono::hours(1));
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<SharedAnswer> answer = statuses.Of(job_, folder_.path());
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ((*answer)->status->state, "RUNNING");
  }
  EXPECT_EQ(questions_, 1);
  EXPECT_TRUE(statuses.Of({.name = "a", .state = JobState::kRunning, .created_ms = 5}, folder_.path()).ok());
  EXPECT_EQ(questions_, 2) << "a job of the same name is another one";
}

TEST_F(ChiefStatusesTest, WhatIsOldIsAskedForAgain) {
  NameTheChief();
  ChiefStatuses statuses(std::chrono::hours(0));
  EXPECT_TRUE(statuses.Of(job_, folder_.path()).ok());
  EXPECT_TRUE(statuses.Of(job_, folder_.path()).ok());
  EXPECT_EQ(questions_, 2);
}

TEST_F(ChiefStatusesTest, AnErrorIsNotKept) {
  ChiefStatuses statuses(std::chrono::hours(1));
  EXPECT_TRUE(absl::IsUnavailable(statuses.Of(job_, folder_.path()).status()));
  NameTheChief();
  EXPECT_TRUE(statuses.Of(job_, folder_.path()).ok());
}

TEST_F(ChiefStatusesTest, ThoseThatWaitForASilentChiefShareOneError) {
  constexpr int kViewers = 8;
  std::atomic<int> questions = 0;
  const FakeChief silent([&questions] {
    ++questions;
    return std::vector<Payload>{};
  });
  folder_.Write("chief.json", absl::StrCat(R"({"endpoint": ")", silent.endpoint(), R"(", "pid": 7, "term": 3})"));
  ChiefStatuses statuses;
  std::barrier together(kViewers);
  std::vector<absl::Status> errors(kViewers);
  std::vector<std::thread> viewers;
  for (absl::Status& error : errors) {
    viewers.emplace_back([&] {
      together.arrive_and_wait();
      error = statuses.Of(job_, folder_.path()).status();
    });
  }
  for (std::thread& viewer : viewers) viewer.join();
  for (const absl::Status& error : errors) EXPECT_TRUE(absl::IsUnavailable(error)) << error;
  EXPECT_EQ(questions, 1);
}

}  // namespace
}  // namespace downpour
