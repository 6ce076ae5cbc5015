#include "cluster/follow_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/exit_code.h"
#include "tests/unit/cluster/fake_chief.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Payload> Status(const std::string& state, const std::string& run, const std::string& job = "digits") {
  return Encode(StatusReply{absl::StrCat(R"({"job": ")", job, R"(", "state": ")", state, R"(", "run": ")", run,
                                         R"(", "errorMessage": "why", "chief": {"host": "elsewhere"}})")});
}

// A chief that gives one answer after the other, the last one for ever.
class FollowJobTest : public ::testing::Test {
 protected:
  absl::StatusOr<Answer> Follow(std::vector<std::vector<Payload>> answers) {
    size_t next = 0;
    chief = std::make_unique<FakeChief>([answers = std::move(answers), next]() mutable {
      const size_t now = next;
      next = std::min(next + 1, answers.size() - 1);
      return answers[now];
    });
    StatusAsker asker({.chief = chief->endpoint(), .job_dir = ""}, /*again_in=*/1ms);
    return FollowToEnd(asker, {.verb = "watch", .err = words, .patience = std::chrono::milliseconds(1)},
                       [this](const Answer& answer) {
                         seen.push_back(answer.status->state);
                         if (kill_after_first) chief.reset();
                         return absl::OkStatus();
                       });
  }
  std::unique_ptr<FakeChief> chief;
  bool kill_after_first = false;
  std::vector<std::string> seen;
  std::ostringstream words;
};

TEST_F(FollowJobTest, EachAnswerIsSeenToTheEnd) {
  const auto end = Follow({Status("RUNNING", "a"), Status("CANCELLING", "a"), Status("CANCELLED", "a")});
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_THAT(seen, ElementsAre("RUNNING", "CANCELLING", "CANCELLED"));
  EXPECT_EQ(EndLine(*end), "digits CANCELLED: why");
}

TEST_F(FollowJobTest, AChiefThatIsGoneIsNoEndOfItsJob) {
  kill_after_first = true;
  const auto end = Follow({Status("CANCELLING", "a")});
  EXPECT_EQ(ExitCodeOf(end.status()), kExitUnreachable) << end.status();
  EXPECT_THAT(words.str(), HasSubstr("downpour watch: no answer, and asks again for 0 s: cannot reach the chief at"));
}

TEST_F(FollowJobTest, AnotherRunAtTheSameAddressIsNotBelieved) {
  const auto end = Follow({Status("RUNNING", "a"), Status("SUCCEEDED", "b")});
  EXPECT_EQ(ExitCodeOf(end.status()), kExitUnreachable) << end.status();
  EXPECT_THAT(std::string(end.status().message()), HasSubstr("the chief of another run now, of the job digits"));
  EXPECT_THAT(seen, ElementsAre("RUNNING"));
}

TEST_F(FollowJobTest, AChiefThatDoesNotKnowItsRunYetHasItsJobsName) {
  const auto end = Follow({Status("QUEUED", ""), Status("RUNNING", "a"), Status("QUEUED", ""), Status("FAILED", "a")});
  EXPECT_TRUE(end.ok()) << end.status();
  const auto other = Follow({Status("RUNNING", "a"), Status("FAILED", "", "mnist")});
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("of another run now, of the job mnist"));
}

TEST_F(FollowJobTest, WhoeverLooksMayEndIt) {
  FakeChief running([] { return Status("RUNNING", "a"); });
  StatusAsker watcher({.chief = running.endpoint(), .job_dir = ""}, 1ms);
  const auto end = FollowToEnd(watcher, {.verb = "watch", .err = words},
                               [](const Answer&) { return absl::CancelledError("enough"); });
  EXPECT_TRUE(absl::IsCancelled(end.status()));
  EXPECT_EQ(words.str(), "");
}

TEST_F(FollowJobTest, WhomNoChiefEverAnsweredHearsSoAtOnce) {
  StatusAsker asker({.chief = "127.0.0.1:1", .job_dir = ""});
  const auto end = FollowToEnd(asker, {.verb = "watch", .err = words}, [](const Answer&) { return absl::OkStatus(); });
  EXPECT_EQ(ExitCodeOf(end.status()), kExitUnreachable);
  EXPECT_EQ(words.str(), "");
}

}  // namespace
}  // namespace downpour
