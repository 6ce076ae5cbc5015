// What the job's own code raises again and again in one lease ends the job, whoever computes it.
#include "chief/code_failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/chief/chief_harness.h"

namespace downpour {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kRaised = "step 1 of lease 0 (examples 5, 9): the Python code: ValueError: of nine";

TEST(CodeFailuresTest, CountsEachLeaseByItself) {
  CodeFailures failures;
  for (int i = 1; i < CodeFailures::kMost; ++i) {
    for (const uint64_t lease : {3, 4}) failures.Note(LeaseId{lease}, "worker-0", kRaised);
  }
  EXPECT_TRUE(failures.failure().ok());
  failures.Committed(LeaseId{3});
  failures.Note(LeaseId{3}, "worker-1", kRaised);
  EXPECT_TRUE(failures.failure().ok()) << "what raised by chance was computed since";
  failures.Note(LeaseId{4}, "worker-1", kRaised);
  EXPECT_EQ(failures.failure().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(failures.failure().message()),
              AllOf(HasSubstr("failed 6 times in lease 4, the last time at worker-1: "), HasSubstr(kRaised)));
}

class ChiefCodeFailuresTest : public ::testing::Test {
 protected:
  ChiefCodeFailuresTest() : cluster(SmallJob()) {
    cluster.Start();
    cluster.RunToRunning();
  }
  // Then there is another process in its place, where the job goes on.
  void Leave(bool code_failed, LeaseId lease) {
    cluster.Say(worker.control,
                downpour::Leave{.from = worker.id, .why = kRaised, .code_failed = code_failed, .lease = lease});
    if (Failed()) return;
    worker.join.nonce += 1000;
    cluster.JoinWorker(0);
    cluster.ReportData(worker);
    cluster.Beat(worker);
  }
  bool Failed() const { return cluster.role->state() == JobState::kFailed; }

  ChiefHarness cluster;
  FakeMember& worker = cluster.worker[0];
  FakeMember& other = cluster.worker[1];
};

TEST_F(ChiefCodeFailuresTest, CommitsOfOtherLeasesDoNotHideIt) {
  const LeaseId bad = cluster.Ask(worker, 1).at(0);
  for (int i = 1; i < CodeFailures::kMost; ++i) {
    Leave(true, bad);
    ASSERT_FALSE(Failed());
    ASSERT_EQ(cluster.Ask(worker, 1).at(0), bad) << "it is the lowest one";
    if (i <= 3) cluster.Finish(other, cluster.Ask(other, 1).at(0));
  }
  Leave(true, bad);
  ASSERT_TRUE(Failed());
  const std::string why = cluster.Status()["errorMessage"];
  EXPECT_THAT(why, AllOf(HasSubstr("failed 6 times in lease 0, the last time at worker-0: "), HasSubstr(kRaised)));
  cluster.Wait(1s);
  ASSERT_FALSE(cluster.Sent<JobEnd>(other).empty());
  EXPECT_FALSE(cluster.Sent<JobEnd>(other)[0].cancelled);
}

TEST_F(ChiefCodeFailuresTest, ProcessesThatDieAreNoFailuresOfTheCode) {
  const LeaseId lease = cluster.Ask(worker, 1).at(0);
  for (int i = 0; i < 2 * CodeFailures::kMost; ++i) {
    Leave(false, lease);
    ASSERT_EQ(cluster.Ask(worker, 1).at(0), lease);
  }
  EXPECT_FALSE(Failed());
}

TEST_F(ChiefCodeFailuresTest, OnlyWhoHoldsTheLeaseSaysSo) {
  const LeaseId lease = cluster.Ask(other, 1).at(0);
  for (int i = 0; i < 2 * CodeFailures::kMost; ++i) Leave(true, lease);
  EXPECT_FALSE(Failed());
}

}  // namespace
}  // namespace downpour
