#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/prng.h"
#include "tests/unit/chief/lease_ledger_fixture.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(LeaseLedgerTest, GrantsTheLowestFirst) {
  Open(5);
  EXPECT_THAT(Ask(kA, 2), ElementsAre(0, 1));
  EXPECT_THAT(Ask(kB, 2), ElementsAre(2, 3));
  EXPECT_THAT(Numbers(ledger.HeldBy(kA)), ElementsAre(0, 1));
  EXPECT_EQ(ledger.Release(kA).size(), 2u);
  EXPECT_THAT(Ask(kB, 2, {LeaseId{2}, LeaseId{3}}), ElementsAre(0, 1)) << "re-opened before fresh";
}

TEST_F(LeaseLedgerTest, ARequestSaidTwiceGrantsOnce) {
  Open(9);
  EXPECT_THAT(Ask(kA, 2), ElementsAre(0, 1));
  EXPECT_THAT(Ask(kA, 2), IsEmpty());
  EXPECT_THAT(last_repeats, ElementsAre(0, 1)) << "their grants were lost: said again";
  EXPECT_THAT(Ask(kA, 1, {LeaseId{0}}), IsEmpty());
  EXPECT_THAT(last_repeats, ElementsAre(1));
}

// Late copies of the grants of 0 and 1, which were committed and re-opened, filled the worker before those of 2 and 3.
TEST_F(LeaseLedgerTest, ALostGrantForWhichThereIsNoRoomIsOpenAgain) {
  Open(9);
  Ask(kA, 2);
  ASSERT_TRUE(*Done(0));
  ASSERT_TRUE(*Done(1));
  EXPECT_THAT(Ask(kA, 2), ElementsAre(2, 3));
  ledger.Restrict({});
  EXPECT_THAT(Ask(kA, 0, {LeaseId{0}, LeaseId{1}}), IsEmpty());
  EXPECT_THAT(last_repeats, IsEmpty());
  EXPECT_THAT(Numbers(ledger.HeldBy(kA)), ElementsAre(0, 1)) << "not four, where it may have two";
  EXPECT_THAT(Ask(kB, 3), ElementsAre(2, 3, 4));
}

TEST_F(LeaseLedgerTest, AsManyLostGrantsAreSaidAgainAsThereIsRoomFor) {
  Open(9);
  EXPECT_THAT(Ask(kA, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(Ask(kA, 2), IsEmpty());
  EXPECT_THAT(last_repeats, ElementsAre(0, 1));
  EXPECT_THAT(Numbers(ledger.HeldBy(kA)), ElementsAre(0, 1));
}

// Else what it computes already is granted to another one too.
TEST_F(LeaseLedgerTest, LostGrantsMakeRoomForWhatTheWorkerHolds) {
  Open(20);
  EXPECT_EQ(Ask(kA, LeaseLedger::kMaxHeld).size(), LeaseLedger::kMaxHeld);
  EXPECT_THAT(Ask(kA, 1, {LeaseId{18}}), IsEmpty()) << "which it got under an earlier chief";
  EXPECT_THAT(last_repeats, ElementsAre(0));
  EXPECT_THAT(Numbers(ledger.HeldBy(kA)), ElementsAre(0, 18));
}

TEST_F(LeaseLedgerTest, AGreedyWorkerIsBounded) {
  Open(100);
  EXPECT_EQ(Ask(kA, 1000).size(), LeaseLedger::kMaxHeld);
  EXPECT_FALSE(ledger.Wants(kA));
}

// Held, they would be open to nobody, however few it computes.
TEST_F(LeaseLedgerTest, AWorkerHoldsNoMoreThanThatByItsOwnWordEither) {
  Open(100);
  Ask(kA, LeaseLedger::kMaxHeld);
  std::vector<LeaseId> others;
  for (uint64_t lease = 20; lease < 40; ++lease) others.push_back(LeaseId{lease});
  EXPECT_THAT(Ask(kA, 1, others), IsEmpty());
  EXPECT_EQ(ledger.HeldBy(kA).size(), LeaseLedger::kMaxHeld);
  EXPECT_THAT(last_repeats, ElementsAre(0)) << "the grant that it has room for";
  EXPECT_EQ(ledger.HeldBy(kA).back(), LeaseId{20 + LeaseLedger::kMaxHeld - 2});
}

TEST_F(LeaseLedgerTest, WaitingWorkersAreServedWhenLeasesOpen) {
  Open(2);
  EXPECT_THAT(Ask(kA, 2), ElementsAre(0, 1));
  EXPECT_THAT(Ask(kB, 2), IsEmpty());
  EXPECT_TRUE(ledger.Wants(kB));
  ledger.Release(kA);
  const auto granted = ledger.Distribute();
  ASSERT_EQ(granted.size(), 2u);
  EXPECT_EQ(granted[0].worker, kB);
  EXPECT_FALSE(ledger.Wants(kB));
  EXPECT_EQ(ledger.holders().at(LeaseId{0}), kB);
}

TEST_F(LeaseLedgerTest, CommitsOnEvidenceOfEverySlicesCurrentEpoch) {
  Open(3);
  Ask(kA, 1);
  ASSERT_TRUE(*Done(0));
  EXPECT_TRUE(ledger.committed().Contains(0));
  EXPECT_THAT(ledger.HeldBy(kA), IsEmpty());
  EXPECT_EQ(ledger.examples_committed(), 8u);
  EXPECT_EQ(ledger.steps_committed(), 2u);
}

// Protocol hole A2: what an epoch that is over acknowledged proves nothing.
TEST_F(LeaseLedgerTest, EvidenceOfAnOlderEpochCommitsNothing) {
  Open(3);
  Ask(kA, 1);
  const std::vector<LeaseDone::Evidence> old = {{SliceId{0}, {1, 1}}, {SliceId{1}, {1, 1}}};
  epochs[1] = {1, 2};
  EXPECT_FALSE(*Done(0, old));
  EXPECT_FALSE(ledger.committed().Contains(0));
  EXPECT_EQ(ledger.holders().count(LeaseId{0}), 1u) << "its worker goes on with it";
  EXPECT_TRUE(*Done(0));
}

TEST_F(LeaseLedgerTest, DoneSaidTwiceCountsOnce) {
  Open(3);
  Ask(kA, 1);
  EXPECT_TRUE(*Done(0));
  EXPECT_TRUE(*Done(0));
  EXPECT_EQ(ledger.examples_committed(), 8u);
  epochs[0] = {1, 2};
  EXPECT_TRUE(*Done(0, {{SliceId{0}, {1, 1}}, {SliceId{1}, {1, 1}}})) << "committed already, whatever this one says";
}

TEST_F(LeaseLedgerTest, RefusesEvidenceThatNoHonestWorkerGives) {
  Open(3);
  Ask(kA, 1);
  const SliceEpoch e{1, 1};
  EXPECT_TRUE(absl::IsInvalidArgument(Done(3).status())) << "a lease out of plan";
  EXPECT_TRUE(absl::IsInvalidArgument(Done(UINT64_MAX).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Done(0, {{SliceId{0}, e}}).status())) << "a slice missing";
  EXPECT_TRUE(absl::IsInvalidArgument(Done(0, {{SliceId{0}, e}, {SliceId{0}, e}}).status())) << "a slice doubled";
  EXPECT_TRUE(absl::IsInvalidArgument(Done(0, {{SliceId{0}, e}, {SliceId{7}, e}}).status())) << "a slice unknown";
  EXPECT_TRUE(absl::IsInvalidArgument(Done(0, {{SliceId{0}, e}, {SliceId{1}, e}, {SliceId{1}, e}}).status()));
  EXPECT_TRUE(ledger.committed().empty());
  EXPECT_TRUE(absl::IsInvalidArgument(ledger.Ask(kA, std::vector<LeaseId>{LeaseId{3}}, 1).status()));
}

TEST_F(LeaseLedgerTest, ALeaseHandedOnMayBeEndedByItsFirstHolder) {
  Open(1);
  Ask(kA, 1);
  Ask(kB, 1);
  ledger.Release(kA);
  ledger.Distribute();
  EXPECT_THAT(Numbers(ledger.HeldBy(kB)), ElementsAre(0));
  EXPECT_TRUE(*Done(0));
  EXPECT_THAT(ledger.HeldBy(kB), IsEmpty());
  EXPECT_TRUE(ledger.AllCommitted());
}

// Protocol hole A3: the open set is what the slices' reports lack, and nothing else.
TEST_F(LeaseLedgerTest, OpensWhatTheSlicesLack) {
  IntervalSet finished;
  finished.InsertRange(0, 2);
  finished.Insert(3);
  finished.InsertRange(6, 99);  // beyond the plan
  Open(7, finished);
  EXPECT_EQ(ledger.committed().Count(), 4u);
  EXPECT_EQ(ledger.examples_committed(), 3 * 8u + 7u);
  EXPECT_THAT(Ask(kA, 9), ElementsAre(2, 4, 5));
}

TEST_F(LeaseLedgerTest, LeasesOfAnEarlierTermStayWithTheirWorker) {
  Open(3);
  EXPECT_THAT(Ask(kA, 1, {LeaseId{1}}), ElementsAre(0));
  EXPECT_THAT(last_repeats, IsEmpty());
  EXPECT_THAT(Numbers(ledger.HeldBy(kA)), ElementsAre(0, 1));
  EXPECT_THAT(Ask(kB, 3), ElementsAre(2));
  ledger.Release(kA);
  EXPECT_THAT(Ask(kB, 3, {LeaseId{2}}), ElementsAre(0, 1));
}

TEST_F(LeaseLedgerTest, WhatASliceLacksIsOpenAgain) {
  Open(4);
  Ask(kA, 3);
  for (const uint64_t lease : {0, 1, 2}) ASSERT_TRUE(*Done(lease));
  IntervalSet finished;
  finished.Insert(0);
  finished.Insert(2);
  EXPECT_THAT(ledger.Restrict(finished).Intervals(), ElementsAre(IntervalSet::Interval{1, 2}));
  EXPECT_EQ(ledger.examples_committed(), 16u);
  EXPECT_THAT(Ask(kB, 4), ElementsAre(1, 3));
}

// Walked one by one, they would take this test for years.
TEST_F(LeaseLedgerTest, RunsOfLeasesCostNoMoreThanOne) {
  constexpr uint64_t kLeases = uint64_t{1} << 40;
  IntervalSet finished;
  finished.InsertRange(1, kLeases);
  Open(kLeases, finished);
  EXPECT_EQ(ledger.examples_committed(), kLeases * 8 - 8 - 1);
  EXPECT_EQ(ledger.steps_committed(), kLeases * 2 - 2);
  EXPECT_THAT(Ask(kA, 2), ElementsAre(0));
  EXPECT_EQ(ledger.Release(kA).size(), 1u);
  IntervalSet half;
  half.InsertRange(0, kLeases / 2);
  EXPECT_EQ(ledger.Restrict(half).Count(), kLeases / 2);
  EXPECT_EQ(ledger.examples_committed(), kLeases / 2 * 8 - 8);
  EXPECT_EQ(ledger.steps_committed(), kLeases - 2);
  EXPECT_THAT(Ask(kB, 2), ElementsAre(0, kLeases / 2));
}

TEST_F(LeaseLedgerTest, EpochsAreCommittedFromTheFirstOn) {
  job.training.epochs = 3;
  Open(2);
  Ask(kA, 6);
  EXPECT_EQ(ledger.EpochsCommitted(), 0u);
  ASSERT_TRUE(*Done(2));
  ASSERT_TRUE(*Done(3));
  EXPECT_EQ(ledger.EpochsCommitted(), 0u);
  ASSERT_TRUE(*Done(0));
  ASSERT_TRUE(*Done(1));
  EXPECT_EQ(ledger.EpochsCommitted(), 2u);
}

// Every lease is committed, held by one, or open, after any sequence of events.
TEST_F(LeaseLedgerTest, NoLeaseIsLostOrHeldTwice) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Prng prng(seed);
    ledger = LeaseLedger();
    IntervalSet finished;
    for (int i = 0; i < 4; ++i) finished.Insert(prng.Below(20));
    Open(20, finished);
    for (int event = 0; event < 200; ++event) {
      const Incarnation worker{1 + prng.Below(3)};
      switch (prng.Below(5)) {
        case 0:
          ledger.Release(worker);
          break;
        case 1:
          ASSERT_TRUE(Done(prng.Below(20)).ok());
          break;
        default:
          ASSERT_TRUE(ledger.Ask(worker, {LeaseId{prng.Below(20)}}, static_cast<uint32_t>(prng.Below(4))).ok());
          ledger.Distribute();
      }
      size_t held = 0;
      for (uint64_t w = 1; w <= 3; ++w) held += ledger.HeldBy(Incarnation{w}).size();
      ASSERT_EQ(held, ledger.holders().size());
      ASSERT_EQ(ledger.batches_committed(), ledger.plan().BatchesIn(ledger.committed()));
      for (const auto& [lease, holder] : ledger.holders()) ASSERT_FALSE(ledger.committed().Contains(ToNumber(lease)));
    }
    for (uint64_t w = 1; w <= 3; ++w) ledger.Release(Incarnation{w});
    ASSERT_TRUE(ledger.Ask(Incarnation{9}, {}, 16).ok());
    size_t open = 0;
    for (auto granted = ledger.Distribute(); !granted.empty(); granted = ledger.Distribute()) {
      open += granted.size();
      for (const auto& grant : granted) ASSERT_TRUE(*Done(ToNumber(grant.lease)));
      ASSERT_TRUE(ledger.Ask(Incarnation{9}, {}, 16).ok());
    }
    ASSERT_TRUE(ledger.AllCommitted()) << "seed " << seed << ": " << open << " were open";
  }
}

TEST_F(LeaseLedgerTest, AnEarlierEndIsThatOfAllItsLeases) {
  job.training.epochs = 3;
  Open(2);
  EXPECT_EQ(ledger.EpochsBegun(), 0u);
  EXPECT_THAT(Ask(kA, 3), ElementsAre(0, 1, 2));
  EXPECT_EQ(ledger.EpochsBegun(), 2u);
  ledger.EndAfter(0);
  EXPECT_EQ(ledger.goal(), 6u);
  ledger.EndAfter(2);
  EXPECT_EQ(ledger.goal(), 4u);
  for (const uint64_t lease : {0, 1, 2}) ASSERT_TRUE(Done(lease).value());
  EXPECT_FALSE(ledger.AllCommitted());
  EXPECT_THAT(Ask(kA, 3), ElementsAre(3));
  ASSERT_TRUE(Done(3).value());
  EXPECT_TRUE(ledger.AllCommitted());
  EXPECT_THAT(Ask(kA, 3), IsEmpty());
  EXPECT_EQ(ledger.EpochsBegun(), 2u);
}

// Of a worker that an earlier chief had granted it, and that this one had not heard when it fixed the end.
TEST_F(LeaseLedgerTest, WhatIsBeyondAnEarlierEndIsNotCommitted) {
  job.training.epochs = 3;
  Open(2);
  ledger.EndAfter(2);
  EXPECT_TRUE(Done(4).value()) << "its worker need not say so again";
  EXPECT_TRUE(ledger.committed().empty());
  Open(2);
  ASSERT_TRUE(Done(0).value());
  ASSERT_TRUE(Done(5).value());
  ledger.EndAfter(2);
  EXPECT_EQ(ledger.committed().Count(), 1u);
  EXPECT_EQ(ledger.batches_committed(), ledger.plan().BatchesIn(ledger.committed()));
}

// Else an early end could be before what every slice has.
TEST_F(LeaseLedgerTest, WhatItBeginsWithHasBegun) {
  job.training.epochs = 5;
  IntervalSet finished;
  finished.Insert(0);
  finished.InsertRange(4, 6);  // epoch 2
  Open(2, finished);
  EXPECT_EQ(ledger.EpochsBegun(), 3u);
  Open(2);
  EXPECT_EQ(ledger.EpochsBegun(), 3u) << "it stays so";
}

// Some slice may have it, or a part of it.
TEST_F(LeaseLedgerTest, WhatWasBegunStaysSoThoughItIsOpenAgain) {
  job.training.epochs = 5;
  Open(2);
  Ask(kA, 3);
  ledger.Release(kA);
  EXPECT_EQ(ledger.EpochsBegun(), 2u) << "its worker died with it";
  for (uint64_t lease = 0; lease < 5; ++lease) ASSERT_TRUE(Done(lease).value());
  ledger.Restrict(IntervalSet());
  EXPECT_EQ(ledger.EpochsBegun(), 3u) << "a slice lacks it now";
  ledger.NoteBegun(7);
  EXPECT_EQ(ledger.EpochsBegun(), 4u) << "a slice has it";
  ledger.NoteBegun(UINT64_MAX);
  EXPECT_EQ(ledger.EpochsBegun(), 5u) << "whoever says so says what it likes";
}

}  // namespace
}  // namespace downpour
