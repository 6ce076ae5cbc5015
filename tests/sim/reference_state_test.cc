// Canaries: the reference state must notice each of these, or a run that is green says nothing.
#include "tests/sim/reference_state.h"

#include <gtest/gtest.h>

#include "runtime/initial_values.h"
#include "tests/sim/fault_plan.h"

namespace downpour {
namespace {

using RecordKind = TraceRecord::Kind;

constexpr Incarnation kPs{100}, kPusher{200};
constexpr SliceId kSlice{0};
constexpr SliceEpoch kEpoch{1, 1}, kNextEpoch{2, 1};
constexpr LeaseId kLease{0};  // of 8 steps

FaultPlan PlainSums() {
  FaultPlan plan = CalmPlan(1, 1, 1);
  plan.job.training.staleness_method = StalenessMethod::kNone;
  return plan;
}

class ReferenceStateTest : public testing::Test {
 protected:
  ReferenceStateTest()
      : plan_(PlainSums()), oracle_(plan_.job, plan_.train_examples, {}), reference_(&oracle_, &findings_) {
    Say({.kind = RecordKind::kInstalled, .actor = kPs, .slice = kSlice, .epoch = kEpoch});
    shown_ = Initial();
    reference_.CheckSlice(shown_, "test");
    EXPECT_EQ(findings_.first(), "");
  }

  SliceState Initial() const {
    Findings unused;
    SliceState state;
    state.slice = kSlice;
    state.epoch = kEpoch;
    const size_t bytes = static_cast<size_t>(oracle_.grid().at(kSlice).bytes());
    state.values = Payload::Allocate(bytes);
    InitialValues(oracle_.job().seed, oracle_.grid(), kSlice, state.values.mutable_floats().data());
    return state;
  }
  void Say(TraceRecord record) { reference_.Record(record); }
  void Apply(Step step, uint64_t version, SliceEpoch epoch = kEpoch) {
    Say({RecordKind::kApplied, kPs, kLease, step, kSlice, epoch, version, kPusher});
  }
  // What a ps shows that applied steps 1 to n.
  SliceState After(Step n) const {
    SliceState state = Initial();
    state.version = n;
    for (Step step = 1; step <= n; ++step) {
      const Payload gradient = oracle_.Gradient(kLease, step, kSlice);
      absl::Span<float> values = state.values.mutable_floats();
      for (size_t i = 0; i < values.size(); ++i) values[i] -= gradient.floats()[i];
    }
    if (n == 8) {
      state.finished.Insert(ToNumber(kLease));
    } else if (n > 0) {
      state.counters = {{kLease, n}};
    }
    return state;
  }
  bool Found() const { return !findings_.ok(); }

  FaultPlan plan_;
  Oracle oracle_;
  Findings findings_;
  ReferenceState reference_;
  SliceState shown_;
};

TEST_F(ReferenceStateTest, AcceptsAWholeLease) {
  for (Step step = 1; step <= 8; ++step) {
    Apply(step, step);
    reference_.CheckSlice(After(step), "test");
    EXPECT_EQ(reference_.ConsumedTo(kSlice, kEpoch, kLease), step);
  }
  EXPECT_TRUE(reference_.Finished(kSlice, kEpoch).Contains(ToNumber(kLease)));
  EXPECT_EQ(findings_.first(), "");
}

TEST_F(ReferenceStateTest, NoticesADoubledStep) {
  Apply(1, 1);
  Apply(1, 2);
  EXPECT_TRUE(Found());
}

TEST_F(ReferenceStateTest, NoticesAStepAfterItsLeaseFinished) {
  for (Step step = 1; step <= 8; ++step) Apply(step, step);
  ASSERT_FALSE(Found());
  Apply(1, 9);
  EXPECT_TRUE(Found());
}

TEST_F(ReferenceStateTest, NoticesAGap) {
  Apply(2, 1);
  EXPECT_TRUE(Found());
}

TEST_F(ReferenceStateTest, NoticesAVersionThatDoesNotCount) {
  Apply(1, 2);
  EXPECT_TRUE(Found());
}

TEST_F(ReferenceStateTest, NoticesAnEffectThatIsMissing) {
  Say({RecordKind::kSkipped, kPs, kLease, 1, kSlice, kEpoch, 0, kPusher});
  EXPECT_TRUE(Found());
}

TEST_F(ReferenceStateTest, NoticesAStrangerWhoApplies) {
  Say({RecordKind::kApplied, Incarnation{101}, kLease, 1, kSlice, kEpoch, 1, kPusher});
  EXPECT_TRUE(Found());
}

TEST_F(ReferenceStateTest, AcceptsThePairThatGoesOnInALaterEpochAndNoOther) {
  Apply(1, 1);
  reference_.CheckSlice(After(1), "test");
  Say({.kind = RecordKind::kKept,
       .actor = Incarnation{101},
       .slice = kSlice,
       .epoch = kNextEpoch,
       .count = 1,
       .before = kEpoch});
  Say({RecordKind::kApplied, Incarnation{101}, kLease, 2, kSlice, kNextEpoch, 2, kPusher});
  EXPECT_EQ(reference_.ConsumedTo(kSlice, kNextEpoch, kLease), 2u);
  EXPECT_EQ(findings_.first(), "");
  Say({.kind = RecordKind::kKept,
       .actor = Incarnation{101},
       .slice = kSlice,
       .epoch = {3, 1},
       .count = 1,
       .before = kNextEpoch});
  EXPECT_TRUE(Found()) << "it had version 2";
}

TEST_F(ReferenceStateTest, NoticesASecondLifeInOneEpoch) {
  Say({.kind = RecordKind::kInstalled, .actor = Incarnation{101}, .slice = kSlice, .epoch = kEpoch});
  EXPECT_TRUE(Found());
}

TEST_F(ReferenceStateTest, NoticesAnAcknowledgementOfWhatWasNotApplied) {
  Apply(1, 1);
  Say({RecordKind::kAcked, kPusher, kLease, 1, kSlice, kEpoch});
  ASSERT_FALSE(Found());
  Say({RecordKind::kAcked, kPusher, kLease, 2, kSlice, kEpoch});
  EXPECT_TRUE(Found());
}

TEST_F(ReferenceStateTest, NoticesValuesWithoutTheirCounter) {
  Apply(1, 1);
  SliceState torn = After(1);
  torn.values = Initial().values;
  reference_.CheckSlice(torn, "test");
  EXPECT_TRUE(Found());
}

TEST_F(ReferenceStateTest, NoticesOneLostAndOneDoubledPushThatCancel) {
  const auto sum = [this](Step a, Step b) {
    std::vector<int64_t> sums(static_cast<size_t>(oracle_.grid().at(kSlice).elements));
    for (Step step : {a, b}) {
      const Payload gradient = oracle_.Gradient(kLease, step, kSlice);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<int64_t>(gradient.floats()[i]);
    }
    return Oracle::Checksum(sums);
  };
  EXPECT_NE(sum(1, 2), sum(1, 1));
  EXPECT_EQ(sum(1, 2), sum(2, 1));
}

TEST_F(ReferenceStateTest, FollowsARestore) {
  constexpr Round kRound{1, 4};
  Apply(1, 1);
  Say({.kind = RecordKind::kSnapshot, .actor = kPs, .slice = kSlice, .epoch = kEpoch, .count = 1, .round = kRound});
  Apply(2, 2);
  SliceState record = After(1);
  reference_.CheckRecord(kRound, record, "test");
  ASSERT_EQ(findings_.first(), "");

  Say({.kind = RecordKind::kInstalled,
       .actor = Incarnation{101},
       .slice = kSlice,
       .epoch = kNextEpoch,
       .count = 1,
       .round = kRound});
  record.epoch = kNextEpoch;
  reference_.CheckSlice(record, "test");
  Say({RecordKind::kApplied, Incarnation{101}, kLease, 2, kSlice, kNextEpoch, 2, kPusher});
  record = After(2);
  record.epoch = kNextEpoch;
  reference_.CheckSlice(record, "test");
  EXPECT_EQ(findings_.first(), "");
}

TEST_F(ReferenceStateTest, NoticesARestoreOfAnotherState) {
  constexpr Round kRound{1, 4};
  Apply(1, 1);
  Say({.kind = RecordKind::kSnapshot, .actor = kPs, .slice = kSlice, .epoch = kEpoch, .count = 1, .round = kRound});
  Apply(2, 2);
  Say({.kind = RecordKind::kInstalled,
       .actor = Incarnation{101},
       .slice = kSlice,
       .epoch = kNextEpoch,
       .count = 2,
       .round = kRound});
  SliceState later = After(2);
  later.epoch = kNextEpoch;
  reference_.CheckSlice(later, "test");
  EXPECT_TRUE(Found());
}

}  // namespace
}  // namespace downpour
