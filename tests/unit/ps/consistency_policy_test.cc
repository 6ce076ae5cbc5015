#include "ps/consistency_policy.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

class ConsistencyPolicyTest : public ::testing::Test {
 protected:
  // Eight leases of one step each, of which the slice has finished those below `finished`, and number 7.
  SliceRefusal Of(uint64_t lease, std::optional<uint64_t> staleness, uint64_t finished = 0) {
    JobSpec job;
    job.training = training;
    job.training.lease_batches = 1;
    job.training.batch_size = 1;
    const Plan plan(job, 8);
    LeaseCounters counters;
    for (uint64_t i = 0; i < finished; ++i) counters.Consume(LeaseId{i}, 1, 1);
    counters.Consume(LeaseId{7}, 1, 1);
    return ConsistencyPolicy(training).RefusalOf(LeaseId{lease}, staleness, counters, plan);
  }

  TrainingSpec training;
};

TEST_F(ConsistencyPolicyTest, AsyncTakesAllThatIsFreshEnough) {
  EXPECT_EQ(Of(6, 1'000'000), SliceRefusal::kNone);
  EXPECT_EQ(Of(6, std::nullopt), SliceRefusal::kNone);
  training.max_staleness = 3;
  EXPECT_EQ(Of(6, 3), SliceRefusal::kNone);
  EXPECT_EQ(Of(6, 4), SliceRefusal::kTooStale);
  EXPECT_EQ(Of(6, std::nullopt), SliceRefusal::kTooStale);
}

TEST_F(ConsistencyPolicyTest, SspReachesAsFarAsItsBound) {
  training.consistency = Consistency::kSsp;
  training.group_size = 2;
  training.ssp_bound = 1;
  EXPECT_EQ(Of(3, 1'000'000), SliceRefusal::kNone);
  EXPECT_EQ(Of(4, 0), SliceRefusal::kTooEarly);
  EXPECT_EQ(Of(4, 0, 1), SliceRefusal::kTooEarly);
  EXPECT_EQ(Of(4, 0, 2), SliceRefusal::kNone);
  EXPECT_EQ(Of(6, 0, 2), SliceRefusal::kTooEarly);
}

TEST_F(ConsistencyPolicyTest, SyncTakesTheGroupUnderWayAndNothingStale) {
  training.consistency = Consistency::kSync;
  training.group_size = 3;
  EXPECT_EQ(Of(2, 0), SliceRefusal::kNone);
  EXPECT_EQ(Of(2, 1), SliceRefusal::kTooStale);
  EXPECT_EQ(Of(2, std::nullopt), SliceRefusal::kTooStale);
  EXPECT_EQ(Of(3, 0, 2), SliceRefusal::kTooEarly);
  EXPECT_EQ(Of(3, 0, 3), SliceRefusal::kNone);
}

}  // namespace
}  // namespace downpour
