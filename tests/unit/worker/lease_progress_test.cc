#include "worker/lease_progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "runtime/prng.h"
#include "tests/unit/worker/two_slices.h"

namespace downpour {
namespace {

using ReplyEffect = LeaseProgress::ReplyEffect;

constexpr Step kLeaseSteps = 3;
constexpr SliceEpoch kOld{1, 1}, kNew{1, 2};

LeaseProgress TwoSlices() { return LeaseProgress(kLeaseSteps, {kOld, kOld}); }

// Each slice lacks nothing from the start, pushes the step and hears it acknowledged.
void Advance(LeaseProgress& progress, SliceId slice, Step to) {
  for (Step step = progress.computed_to(slice) + 1; step <= to; ++step) progress.MarkComputed(slice, step);
  progress.OnReply(slice, progress.epoch(slice), to, to);
}

TEST(LeaseProgressTest, StartsAtTheSmallestStepThatASliceLacks) {
  LeaseProgress progress = TwoSlices();
  EXPECT_FALSE(progress.AllKnown());
  EXPECT_EQ(progress.OnReply(kX, kOld, 2, 2), ReplyEffect::kFirstInEpoch);
  EXPECT_FALSE(progress.AllKnown());
  EXPECT_EQ(progress.OnReply(kY, kOld, 1, 1), ReplyEffect::kFirstInEpoch);
  EXPECT_TRUE(progress.AllKnown());
  EXPECT_EQ(progress.Next(), 2u);
  EXPECT_FALSE(progress.Lacks(kX, 2)) << "X has it already";
  EXPECT_TRUE(progress.Lacks(kY, 2));
}

TEST(LeaseProgressTest, IsDoneWhenEverySliceAcknowledgedTheLastStep) {
  LeaseProgress progress = TwoSlices();
  Advance(progress, kX, kLeaseSteps);
  EXPECT_FALSE(progress.Done());
  Advance(progress, kY, kLeaseSteps);
  EXPECT_TRUE(progress.Done());
  EXPECT_EQ(progress.Next(), 0u);
}

// With a backup: consumed runs ahead, and does not acknowledge.
TEST(LeaseProgressTest, OnlyAckedAcknowledges) {
  LeaseProgress progress(kLeaseSteps, {kOld});
  progress.OnReply(kX, kOld, kLeaseSteps, 1);
  EXPECT_EQ(progress.Next(), 0u);
  EXPECT_FALSE(progress.Done());
  EXPECT_EQ(progress.retained_from(kX), 1u);
  progress.OnReply(kX, kOld, kLeaseSteps, kLeaseSteps);
  EXPECT_TRUE(progress.Done());
}

TEST(LeaseProgressTest, LateAndImpossibleAnswersChangeNothing) {
  LeaseProgress progress(kLeaseSteps, {kOld});
  Advance(progress, kX, 2);
  EXPECT_EQ(progress.OnReply(kX, kOld, 1, 1), ReplyEffect::kProgress);
  EXPECT_EQ(progress.Next(), 3u) << "an answer from before does not send it back";
  EXPECT_EQ(progress.OnReply(kX, kNew, 0, 0), ReplyEffect::kIgnored);
  EXPECT_EQ(progress.OnReply(kX, kOld, kLeaseSteps + 1, 0), ReplyEffect::kIgnored);
  EXPECT_EQ(progress.OnReply(kX, kOld, 1, 2), ReplyEffect::kIgnored);
  EXPECT_EQ(progress.Next(), 3u);
  EXPECT_EQ(progress.retained_from(kX), 2u);
}

TEST(LeaseProgressTest, ANewEpochDropsAcknowledgements) {
  LeaseProgress progress = TwoSlices();
  Advance(progress, kX, kLeaseSteps);
  Advance(progress, kY, kLeaseSteps);
  progress.Renew(kX, kNew);
  EXPECT_FALSE(progress.Done());
  EXPECT_FALSE(progress.Known(kX));
  EXPECT_EQ(progress.OnReply(kX, kOld, kLeaseSteps, kLeaseSteps), ReplyEffect::kIgnored)
      << "the old epoch's word counts no longer";
  EXPECT_FALSE(progress.Done());
  EXPECT_EQ(progress.OnReply(kX, kNew, kLeaseSteps, kLeaseSteps), ReplyEffect::kFirstInEpoch);
  EXPECT_TRUE(progress.Done());
}

TEST(LeaseProgressTest, ASliceThatLostWhatIsNoLongerKeptIsComputedAgain) {
  LeaseProgress progress = TwoSlices();
  Advance(progress, kX, 2);
  Advance(progress, kY, 2);
  progress.MarkComputed(kX, 3);
  progress.MarkComputed(kY, 3);
  progress.Renew(kX, kNew);
  progress.OnReply(kX, kNew, 1, 1);
  EXPECT_EQ(progress.Next(), 2u);
  EXPECT_TRUE(progress.Lacks(kX, 2));
  EXPECT_FALSE(progress.Lacks(kY, 2));
  EXPECT_EQ(progress.computed_to(kX), 1u) << "step 3 without step 2 is of no use";
  EXPECT_EQ(progress.computed_to(kY), 3u);
}

TEST(LeaseProgressTest, ASliceThatLostWhatIsStillKeptIsNot) {
  LeaseProgress progress(kLeaseSteps, {kOld});
  progress.OnReply(kX, kOld, 0, 0);
  progress.MarkComputed(kX, 1);
  progress.MarkComputed(kX, 2);
  progress.Renew(kX, kNew);
  progress.OnReply(kX, kNew, 0, 0);
  EXPECT_EQ(progress.Next(), 3u);
  EXPECT_EQ(progress.retained_from(kX), 0u);
  EXPECT_EQ(progress.computed_to(kX), 2u);
}

TEST(LeaseProgressTest, AsksAllAgainWhenTheChiefDoesNotBelieve) {
  LeaseProgress progress = TwoSlices();
  Advance(progress, kX, kLeaseSteps);
  Advance(progress, kY, kLeaseSteps);
  progress.ForgetAnswers();
  EXPECT_FALSE(progress.Done());
  EXPECT_FALSE(progress.AllKnown());
  progress.OnReply(kX, kOld, kLeaseSteps, kLeaseSteps);
  progress.OnReply(kY, kOld, 0, 0);  // after all
  EXPECT_EQ(progress.Next(), 1u);
  EXPECT_FALSE(progress.Lacks(kX, 1));
}

// A slice as the ps has it, restored now and then from an earlier state in a new epoch. Answers are delivered late and
// in any order. The lease must still end with every step consumed once, in order, in each slice's last epoch.
struct ModelSlice {
  SliceEpoch epoch = kOld;
  Step consumed = 0;
};

class Model {
 public:
  explicit Model(uint64_t seed) : prng_(seed), slices_(1 + prng_.Below(3)) {
    std::vector<SliceEpoch> epochs(slices_.size(), kOld);
    progress_ = LeaseProgress(steps_, epochs);
    kept_.resize(slices_.size());
  }

  void Run() {
    for (int event = 0; event < 400; ++event) Event(/*calm=*/false);
    for (int event = 0; event < 2000 && !progress_.Done(); ++event) Event(/*calm=*/true);
  }

  void Check() {
    ASSERT_TRUE(progress_.Done());
    for (const ModelSlice& slice : slices_) EXPECT_EQ(slice.consumed, steps_);
  }

 private:
  struct Answer {
    SliceId slice{};
    SliceEpoch epoch;
    Step consumed = 0;
  };

  void Event(bool calm) {
    const SliceId id{static_cast<uint32_t>(prng_.Below(slices_.size()))};
    switch (prng_.Below(calm ? 4 : 5)) {
      case 0:
        return Answers(id);
      case 1:
        return Deliver();
      case 2:
        return Compute();
      case 3:
        return Push(id);
      default:
        return Restore(id);
    }
  }
  void Answers(SliceId id) {
    const ModelSlice& slice = slices_[ToNumber(id)];
    answers_.push_back({id, slice.epoch, slice.consumed});
  }
  void Deliver() {
    if (answers_.empty()) return;
    const Answer answer = answers_[prng_.Below(answers_.size())];  // may come again
    progress_.OnReply(answer.slice, answer.epoch, answer.consumed, answer.consumed);
    std::set<Step>& kept = kept_[ToNumber(answer.slice)];
    std::erase_if(kept, [&](Step s) {
      return s <= progress_.retained_from(answer.slice) || s > progress_.computed_to(answer.slice);
    });
    for (Step s = progress_.retained_from(answer.slice) + 1; s <= progress_.computed_to(answer.slice); ++s) {
      // Either kept here, or known to be consumed already (by another worker).
      ASSERT_TRUE(kept.contains(s) || s <= slices_[ToNumber(answer.slice)].consumed);
    }
  }
  void Compute() {
    const Step next = progress_.Next();
    if (next == 0 || !progress_.AllKnown()) return;
    for (uint32_t i = 0; i < slices_.size(); ++i) {
      if (!progress_.Lacks(SliceId{i}, next)) continue;
      progress_.MarkComputed(SliceId{i}, next);
      kept_[i].insert(next);
    }
  }
  void Push(SliceId id) {
    ModelSlice& slice = slices_[ToNumber(id)];
    if (progress_.Known(id) && kept_[ToNumber(id)].contains(slice.consumed + 1)) ++slice.consumed;
  }
  void Restore(SliceId id) {
    if (!prng_.Chance(0.1)) return;
    ModelSlice& slice = slices_[ToNumber(id)];
    slice.consumed = static_cast<Step>(prng_.Below(slice.consumed + 1));
    ++slice.epoch.n;
    progress_.Renew(id, slice.epoch);
  }

  Prng prng_;
  Step steps_ = static_cast<Step>(1 + prng_.Below(5));
  std::vector<ModelSlice> slices_;
  LeaseProgress progress_{1, {}};
  std::vector<std::set<Step>> kept_;  // by slice
  std::vector<Answer> answers_;
};

TEST(LeaseProgressTest, EndsWithEveryStepOnEverySliceWhateverIsRestoredMeanwhile) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(seed);
    model.Run();
    model.Check();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace downpour
