// What the job's own code raises again and again in one lease ends the job, whoever computes it.
#include "chief/known/code_failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/chief/chief_harness.h"

namespace downpour {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kRaised = "step 1 of lease 0 (examples 5, 9): the Python code: ValueError: of nine";

TEST(CodeFailuresTest, CountsEachLeaseByItself) {
  CodeFailures failures;
  for (int i = 1; i < CodeFailures::kMost; ++i) {
    for (const uint64_t lease : {3, 4}) failures.Note(LeaseId{lease}, "worker-0", kRaised, /*alone=*/false);
  }
  EXPECT_TRUE(failures.failure().ok());
  failures.Committed(LeaseId{3});
  failures.Note(LeaseId{3}, "worker-1", kRaised, /*alone=*/false);
  EXPECT_TRUE(failures.failure().ok()) << "what raised by chance was computed since";
  failures.Note(LeaseId{4}, "worker-1", kRaised, /*alone=*/false);
  EXPECT_EQ(failures.failure().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(failures.failure().message()),
              AllOf(HasSubstr("failed 6 times in lease 4, the last time at worker-1: "), HasSubstr(kRaised)));
}

TEST(CodeFailuresTest, BlamesTheHostOfOneThatFailsAlone) {
  CodeFailures beside_others, alone;
  for (int i = 0; i < 2 * CodeFailures::kMost; ++i) {
    beside_others.Note(LeaseId{3}, "worker-0", kRaised, /*alone=*/false);
    alone.Note(LeaseId{3}, "worker-0", kRaised, /*alone=*/true);
  }
  EXPECT_TRUE(beside_others.failure().ok());
  EXPECT_FALSE(alone.failure().ok());
  beside_others.Note(LeaseId{3}, "worker-1", kRaised, /*alone=*/false);
  EXPECT_FALSE(beside_others.failure().ok());
}

TEST(CodeFailuresTest, CountsEvaluationsTogether) {
  CodeFailures failures;
  for (int i = 1; i < CodeFailures::kMost; ++i) failures.NoteInEvaluation("worker-0", kRaised, /*alone=*/true);
  failures.Evaluated();
  failures.NoteInEvaluation("worker-0", kRaised, /*alone=*/true);
  EXPECT_TRUE(failures.failure().ok()) << "one was finished since";
  for (int i = 1; i < CodeFailures::kMost; ++i) failures.NoteInEvaluation("worker-1", kRaised, /*alone=*/false);
  EXPECT_THAT(std::string(failures.failure().message()),
              HasSubstr("the job's own code failed 6 times in evaluations, the last time at worker-1: "));
}

class CodeFailuresInAnHourTest : public ::testing::Test {
 protected:
  // In a lease of its own each time.
  void Raise(int64_t index, int64_t workers, int times = CodeFailures::kMost, Duration apart = 1s) {
    const std::string task = absl::StrCat("worker-", index);
    for (int i = 0; i < times; ++i) failures.NoteAt(now += apart, index, task, kRaised, workers);
  }
  CodeFailures failures;
  Time now{};
};

TEST_F(CodeFailuresInAnHourTest, TheOnlyWorkerMayRaiseFiveTimes) {
  Raise(0, 1, CodeFailures::kMost - 1);
  EXPECT_TRUE(failures.failure().ok());
  Raise(0, 1, 1);
  EXPECT_EQ(failures.failure().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(failures.failure().message()),
              AllOf(HasSubstr("failed 6 times within an hour at 1 of 1 workers, the last time at worker-0: "),
                    HasSubstr(kRaised)));
}

TEST_F(CodeFailuresInAnHourTest, WhatRaisesNowAndThenGoesOnForDays) {
  Raise(0, 1, 200, CodeFailures::kWithin / (CodeFailures::kMost - 1) + 1s);
  EXPECT_TRUE(failures.failure().ok());
}

TEST_F(CodeFailuresInAnHourTest, OnlyMoreThanHalfOfTheWorkersSayThatItIsNotTheHosts) {
  Raise(0, 4, 100);
  Raise(1, 4, 100);
  EXPECT_TRUE(failures.failure().ok());
  Raise(2, 4);
  EXPECT_FALSE(failures.failure().ok());
}

TEST_F(CodeFailuresInAnHourTest, WorkersThatWereScaledAwayCountNoMore) {
  for (const int64_t index : {3, 4, 5}) Raise(index, 6);
  Raise(0, 2);
  EXPECT_TRUE(failures.failure().ok()) << failures.failure();
  Raise(1, 2);
  EXPECT_THAT(std::string(failures.failure().message()), HasSubstr(" at 2 of 2 workers, "));
}

TEST_F(CodeFailuresInAnHourTest, OneThatStillRaisesOnItsWayOutCountsNoMore) {
  Raise(0, 2);
  Raise(2, 2);
  EXPECT_TRUE(failures.failure().ok()) << failures.failure();
}

TEST(CodeFailuresTest, CodeThatEndedIsNotTriedAgain) {
  CodeFailures failures;
  failures.NoteEnd("worker-1", "the loop ended");
  EXPECT_THAT(std::string(failures.failure().message()),
              HasSubstr("the job ended at worker-1: the loop ended"));
}

class ChiefCodeFailuresTest : public ::testing::Test {
 protected:
  ChiefCodeFailuresTest() : cluster(SmallJob()) {
    cluster.Start();
    cluster.RunToRunning();
  }
  // Then there is another process in its place, where the job goes on.
  void Leave(FakeMember& member, bool code_failed, LeaseId lease) {
    cluster.Say(member.control,
                downpour::Leave{.from = member.id, .why = kRaised, .code_failed = code_failed, .lease = lease});
    if (cluster.role->state() != JobState::kRunning) return;
    member.join.nonce += 1000;
    cluster.JoinWorker(&member == &worker ? 0 : 1);
    cluster.ReportData(member);
    cluster.Beat(member);
  }
  bool Failed() const { return cluster.role->state() == JobState::kFailed; }

  ChiefHarness cluster;
  FakeMember& worker = cluster.worker[0];
  FakeMember& other = cluster.worker[1];
};

TEST_F(ChiefCodeFailuresTest, CommitsOfOtherLeasesDoNotHideIt) {
  const LeaseId bad = cluster.Ask(worker, 1).at(0);
  for (int i = 1; i < CodeFailures::kMost; ++i) {
    Leave(worker, true, bad);
    ASSERT_FALSE(Failed());
    if (i == CodeFailures::kMost - 1) break;
    ASSERT_EQ(cluster.Ask(worker, 1).at(0), bad) << "it is the lowest one";
    if (i <= 3) cluster.Finish(other, cluster.Ask(other, 1).at(0));
  }
  ASSERT_EQ(cluster.Ask(other, 1).at(0), bad);
  Leave(other, true, bad);
  ASSERT_TRUE(Failed());
  const std::string why = cluster.Status()["errorMessage"];
  EXPECT_THAT(why, AllOf(HasSubstr("failed 6 times in lease 0, the last time at worker-1: "), HasSubstr(kRaised)));
  cluster.Wait(1s);
  ASSERT_FALSE(cluster.Sent<JobEnd>(worker).empty());
  EXPECT_FALSE(cluster.Sent<JobEnd>(worker)[0].cancelled);
}

TEST_F(ChiefCodeFailuresTest, TheLastCheckpointOfACancelledJobIsWrittenAllTheSame) {
  const LeaseId bad = cluster.Ask(worker, 1).at(0);
  cluster.Finish(other, cluster.Ask(other, 1).at(0));
  for (int i = 1; i < CodeFailures::kMost; ++i) {
    Leave(worker, true, bad);
    if (i < CodeFailures::kMost - 1) {
      ASSERT_EQ(cluster.Ask(worker, 1).at(0), bad);
    }
  }
  ASSERT_EQ(cluster.Ask(other, 1).at(0), bad);
  cluster.ps[0].answers_snapshots = false;
  cluster.Feed(StopRequested{15, "SIGTERM"});
  ASSERT_EQ(cluster.role->state(), JobState::kCancelling);
  Leave(other, true, bad);
  EXPECT_EQ(cluster.role->state(), JobState::kCancelling);
}

TEST_F(ChiefCodeFailuresTest, CodeThatEndsInGoodOrderEndsTheJobAtOnce) {
  const LeaseId lease = cluster.Ask(worker, 1).at(0);
  const auto leave = [&](FakeMember& member) {
    cluster.Say(
        member.control,
        downpour::Leave{.from = member.id, .why = kRaised, .code_failed = true, .lease = lease, .code_ended = true});
  };
  leave(other);
  EXPECT_FALSE(Failed()) << "the lease is not its own";
  leave(worker);
  ASSERT_TRUE(Failed());
  EXPECT_THAT(std::string(cluster.Status()["errorMessage"]), HasSubstr("the job ended at worker-0: "));
}

TEST_F(ChiefCodeFailuresTest, ProcessesThatDieAreNoFailuresOfTheCode) {
  const LeaseId lease = cluster.Ask(worker, 1).at(0);
  for (int i = 0; i < 2 * CodeFailures::kMost; ++i) {
    FakeMember& holder = i % 2 == 0 ? worker : other;  // one alone would be blamed on its host
    FakeMember& next = i % 2 == 0 ? other : worker;
    Leave(holder, false, lease);
    ASSERT_FALSE(Failed());
    ASSERT_EQ(cluster.Ask(next, 1).at(0), lease);
  }
}

TEST_F(ChiefCodeFailuresTest, TheOnlyWorkerIsTheOneThatPeopleLeftToTheJob) {
  cluster.Say(PeerId{99}, Control{cluster.role->term(), 1, 1, ControlKind::kScale, 1});
  cluster.Wait(1s);
  cluster.Say(other.control, downpour::Leave{.from = other.id, .why = "retired"});
  const LeaseId bad = cluster.Ask(worker, 1).at(0);
  for (int i = 0; i < CodeFailures::kMost; ++i) {
    ASSERT_FALSE(Failed());
    ASSERT_TRUE(i == 0 || cluster.Ask(worker, 1).at(0) == bad);
    Leave(worker, true, bad);
  }
  EXPECT_TRUE(Failed());
}

TEST_F(ChiefCodeFailuresTest, CodeThatRaisesInEvaluationsEndsTheJobToo) {
  for (int i = 0; i < 3; ++i) cluster.Finish(worker, cluster.Ask(worker, 1).at(0));
  for (int i = 0; i < CodeFailures::kMost; ++i) {
    ASSERT_FALSE(Failed());
    FakeMember& one = i % 2 == 0 ? worker : other;
    cluster.Forget();
    cluster.Ask(one, 1);
    ASSERT_FALSE(cluster.Sent<EvalGrant>(one).empty());
    Leave(one, true, LeaseId{});
  }
  EXPECT_TRUE(Failed());
  const std::string why = cluster.Status()["errorMessage"];
  EXPECT_THAT(why, HasSubstr("the job's own code failed 6 times in evaluations, the last time at worker-1: "));
}

TEST_F(ChiefCodeFailuresTest, CodeThatRaisesInAnotherLeaseEachTimeEndsTheJobToo) {
  for (int i = 0; i < 2 * CodeFailures::kMost - 1; ++i) {
    FakeMember& one = i % 2 == 0 ? worker : other;
    ASSERT_FALSE(Failed());
    const LeaseId lease = cluster.Ask(one, 1).at(0);
    Leave(one, true, lease);
    if (i % 4 == 3) cluster.Finish(one, cluster.Ask(one, 1).at(0));  // before it failed six times
  }
  ASSERT_FALSE(Failed());
  Leave(other, true, cluster.Ask(other, 1).at(0));
  ASSERT_TRUE(Failed());
  const std::string why = cluster.Status()["errorMessage"];
  EXPECT_THAT(why, HasSubstr("the job's own code failed 6 times within an hour at 2 of 2 workers, the last time at "));
}

TEST_F(ChiefCodeFailuresTest, ProcessesThatAreKilledBeforeTheyHaveTheModelEndTheJobToo) {
  for (int i = 0; i < 2 * CodeFailures::kMost; ++i) {
    FakeMember& one = i % 2 == 0 ? worker : other;
    ASSERT_FALSE(Failed());
    one.join.nonce += 1000;
    cluster.Say(one.control, downpour::Leave{.from = one.id, .why = "it is restarted"});
    cluster.JoinWorker(i % 2);
    Leave(one, true, LeaseId{});
  }
  EXPECT_TRUE(Failed());
}

TEST_F(ChiefCodeFailuresTest, OnlyWhoHoldsTheLeaseSaysSo) {
  const LeaseId lease = cluster.Ask(other, 1).at(0);
  for (int i = 0; i < 2 * CodeFailures::kMost; ++i) Leave(worker, true, lease);
  Leave(other, true, lease);
  EXPECT_FALSE(Failed()) << "it raised once";
}

}  // namespace
}  // namespace downpour
