#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <optional>

#include "runtime/prng.h"
#include "tests/unit/chief/lease_ledger_fixture.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GroupsTest : public LeaseLedgerTest {
 protected:
  // Leases of one step each, in groups of two.
  void Open(Consistency consistency, std::optional<size_t> copies = 0) {
    job.training.consistency = consistency;
    job.training.group_size = 2;
    job.training.ssp_bound = 1;
    job.training.batch_size = job.training.lease_batches = 1;
    ledger.Open(Plan(job, 9), {}, copies);
  }
  bool DoneBy(Incarnation worker, uint64_t lease) {
    return *ledger.Decide(
        {.from = worker, .lease = LeaseId{lease}, .evidence = {{SliceId{0}, epochs[0]}, {SliceId{1}, epochs[1]}}},
        epochs);
  }
  static constexpr Incarnation kC{13};
};

TEST_F(GroupsTest, SyncGrantsTheNextGroupOnceAllOfThisOneIsCommitted) {
  Open(Consistency::kSync);
  EXPECT_THAT(Ask(kA, 3), ElementsAre(0, 1));
  ASSERT_TRUE(DoneBy(kA, 1));
  EXPECT_THAT(ledger.Distribute(), IsEmpty());
  ASSERT_TRUE(ledger.HeldUpBy().has_value());
  EXPECT_EQ(ledger.HeldUpBy()->lease, LeaseId{0});
  ASSERT_TRUE(DoneBy(kA, 0));
  EXPECT_FALSE(ledger.HeldUpBy().has_value());
  EXPECT_EQ(ledger.Distribute().size(), 1u);
  EXPECT_THAT(Numbers(ledger.HeldBy(kA)), ElementsAre(2));
}

TEST_F(GroupsTest, SspGrantsAsFarAsItsBoundReaches) {
  Open(Consistency::kSsp);
  EXPECT_THAT(Ask(kA, 9), ElementsAre(0, 1, 2, 3));
  for (const uint64_t lease : {1, 2, 3}) ASSERT_TRUE(DoneBy(kA, lease));
  EXPECT_THAT(ledger.Distribute(), IsEmpty());
  ASSERT_TRUE(DoneBy(kA, 0));
  EXPECT_EQ(ledger.Distribute().size(), 4u) << "groups 2 and 3";
}

// A slice went back to an older state: the worker says no more that it holds 2, for which it is too early.
TEST_F(GroupsTest, WhatIsOutOfReachIsNotGrantedAgain) {
  Open(Consistency::kSync);
  Ask(kA, 2);
  ASSERT_TRUE(DoneBy(kA, 0));
  ASSERT_TRUE(DoneBy(kA, 1));
  EXPECT_THAT(Ask(kA, 1), ElementsAre(2));
  ledger.Restrict({});
  EXPECT_THAT(Ask(kA, 1), ElementsAre(0));
  EXPECT_THAT(last_repeats, IsEmpty());
  EXPECT_THAT(Numbers(ledger.HeldBy(kA)), ElementsAre(0));
}

TEST_F(GroupsTest, ABackupTakesTheLeaseOfWhoCommittedTheFewest) {
  Open(Consistency::kSync, 1);
  EXPECT_THAT(Ask(kA, 1), ElementsAre(0));
  EXPECT_THAT(Ask(kB, 1), ElementsAre(1));
  ASSERT_TRUE(DoneBy(kA, 0));
  EXPECT_THAT(Ask(kA, 1), ElementsAre(1)) << "which kB holds";
  EXPECT_THAT(Ask(kC, 1), IsEmpty()) << "one copy is all there may be";
  ASSERT_TRUE(DoneBy(kA, 1));
  EXPECT_THAT(ledger.HeldBy(kB), IsEmpty());
  EXPECT_THAT(Numbers(ledger.HeldBy(kC)), IsEmpty());
  EXPECT_TRUE(DoneBy(kB, 1)) << "late, and true";
  EXPECT_EQ(ledger.commits(), 2u);

  EXPECT_EQ(ledger.Distribute().size(), 1u);
  EXPECT_THAT(Numbers(ledger.HeldBy(kC)), ElementsAre(2));
  EXPECT_THAT(Ask(kB, 1), ElementsAre(3));
  EXPECT_THAT(Ask(kA, 1), ElementsAre(2)) << "kC committed none, as kB";
}

// Only a hostile worker asks for a second lease of a group. Of its own it would get a copy, and after its end both
// would be held by nobody who lives.
TEST_F(GroupsTest, NoWorkerGetsACopyOfItsOwnLease) {
  Open(Consistency::kSync, /*copies=*/2);
  EXPECT_THAT(Ask(kA, 5), ElementsAre(0, 1));
  EXPECT_THAT(ledger.Distribute(), IsEmpty());
  EXPECT_EQ(ledger.Release(kA).size(), 2u);
  EXPECT_THAT(Ask(kB, 2), ElementsAre(0, 1));
}

TEST_F(GroupsTest, WhoHasACopyGoesOnWithItAlone) {
  Open(Consistency::kSync, 1);
  EXPECT_THAT(Ask(kA, 2), ElementsAre(0, 1));
  EXPECT_THAT(Ask(kB, 1), ElementsAre(0));
  EXPECT_THAT(ledger.Release(kA), ElementsAre(LeaseId{1})) << "the other one is not handed on: kB has it";
  EXPECT_EQ(ledger.holders().at(LeaseId{0}), kB);
  EXPECT_EQ(ledger.holders().count(LeaseId{1}), 0u);
  EXPECT_THAT(Ask(kC, 1), ElementsAre(1));
  EXPECT_THAT(Ask(kA, 1), ElementsAre(0));
  ledger.Release(kA);
  EXPECT_EQ(ledger.holders().at(LeaseId{0}), kB) << "who lost a mere copy";
}

// Else the job would wait for its slowest worker alone.
TEST_F(GroupsTest, AtTheEndASlowWorkersLeaseIsCopiedToAFasterOne) {
  Open(Consistency::kAsync, std::nullopt);
  EXPECT_THAT(Ask(kB, 2), ElementsAre(0, 1));
  EXPECT_THAT(Ask(kA, 6), ElementsAre(2, 3, 4, 5, 6, 7));
  for (const uint64_t lease : {2, 3, 4}) ASSERT_TRUE(DoneBy(kA, lease));
  ASSERT_TRUE(DoneBy(kB, 0));
  EXPECT_THAT(Ask(kA, 2, {LeaseId{5}, LeaseId{6}, LeaseId{7}}), ElementsAre(8, 1)) << "1 of 3 is less than half";
  EXPECT_THAT(Ask(kC, 1), IsEmpty()) << "it has committed none, and nobody fewer";
  ASSERT_TRUE(DoneBy(kA, 1));
  EXPECT_THAT(ledger.HeldBy(kB), IsEmpty());
  EXPECT_TRUE(DoneBy(kB, 1)) << "late, and true";
}

TEST_F(GroupsTest, EqualWorkersCopyNothing) {
  Open(Consistency::kAsync, std::nullopt);
  EXPECT_THAT(Ask(kB, 2), ElementsAre(0, 1));
  EXPECT_THAT(Ask(kA, 7), ElementsAre(2, 3, 4, 5, 6, 7, 8));
  ASSERT_TRUE(DoneBy(kB, 0));
  for (const uint64_t lease : {2, 3}) ASSERT_TRUE(DoneBy(kA, lease));
  EXPECT_THAT(Ask(kA, 1, {LeaseId{4}, LeaseId{5}, LeaseId{6}, LeaseId{7}, LeaseId{8}}), IsEmpty()) << "1 of 2 is half";
}

// Whatever happens, a lease has a holder and at most one more, and copies keep nobody from ending the job.
TEST_F(GroupsTest, ALeaseIsHeldByTwoAtMost) {
  size_t copied = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Prng prng(seed);
    ledger = LeaseLedger();
    Open(Consistency::kAsync, std::nullopt);
    for (int event = 0; event < 200; ++event) {
      const Incarnation worker{1 + prng.Below(3)};
      const std::vector<LeaseId> held = ledger.HeldBy(worker);
      if (prng.Chance(0.05)) {
        ledger.Release(worker);
      } else if (!held.empty() && prng.Chance(worker == Incarnation{1} ? 0.05 : 0.4)) {
        ASSERT_TRUE(DoneBy(worker, ToNumber(held[prng.Below(held.size())])));
      } else {
        ASSERT_TRUE(ledger.Ask(worker, held, static_cast<uint32_t>(prng.Below(3))).ok());
        ledger.Distribute();
      }
      std::map<LeaseId, size_t> holders;
      for (uint64_t w = 1; w <= 3; ++w) {
        for (const LeaseId lease : ledger.HeldBy(Incarnation{w})) ++holders[lease];
      }
      for (const auto& [lease, count] : holders) {
        ASSERT_LE(count, 2u) << "seed " << seed;
        ASSERT_TRUE(ledger.holders().contains(lease)) << "seed " << seed;
        copied += count - 1;
      }
      ASSERT_EQ(holders.size(), ledger.holders().size()) << "seed " << seed;
    }
    for (uint64_t w = 1; w <= 3; ++w) ledger.Release(Incarnation{w});
    ASSERT_TRUE(ledger.Ask(kC, {}, 16).ok());
    for (const auto& grant : ledger.Distribute()) ASSERT_TRUE(DoneBy(kC, ToNumber(grant.lease)));
    ASSERT_TRUE(ledger.AllCommitted()) << "seed " << seed;
  }
  EXPECT_GT(copied, 0u);
}

}  // namespace
}  // namespace downpour
