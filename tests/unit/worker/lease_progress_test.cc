#include "worker/lease_progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "runtime/prng.h"

namespace downpour {
namespace {

using Heard = LeaseProgress::Heard;

constexpr Step kSteps = 3;
constexpr SliceEpoch kOld{1, 1}, kNew{1, 2};
constexpr SliceId kX{0}, kY{1};

LeaseProgress TwoSlices() { return LeaseProgress(kSteps, {kOld, kOld}); }

// Each slice lacks nothing from the start, pushes the step and hears it acknowledged.
void Advance(LeaseProgress& progress, SliceId slice, Step to) {
  for (Step step = progress.covered(slice) + 1; step <= to; ++step) progress.Keep(slice, step);
  progress.Hear(slice, progress.epoch(slice), to, to);
}

TEST(LeaseProgressTest, StartsAtTheSmallestStepThatASliceLacks) {
  LeaseProgress progress = TwoSlices();
  EXPECT_FALSE(progress.AllKnown());
  EXPECT_EQ(progress.Hear(kX, kOld, 2, 2), Heard::kFirst);
  EXPECT_FALSE(progress.AllKnown());
  EXPECT_EQ(progress.Hear(kY, kOld, 1, 1), Heard::kFirst);
  EXPECT_TRUE(progress.AllKnown());
  EXPECT_EQ(progress.Next(), 2u);
  EXPECT_FALSE(progress.Lacks(kX, 2)) << "X has it already";
  EXPECT_TRUE(progress.Lacks(kY, 2));
}

TEST(LeaseProgressTest, IsDoneWhenEverySliceAcknowledgedTheLastStep) {
  LeaseProgress progress = TwoSlices();
  Advance(progress, kX, kSteps);
  EXPECT_FALSE(progress.Done());
  Advance(progress, kY, kSteps);
  EXPECT_TRUE(progress.Done());
  EXPECT_EQ(progress.Next(), 0u);
}

// With a backup: applied runs ahead, and does not acknowledge.
TEST(LeaseProgressTest, OnlyAckedAcknowledges) {
  LeaseProgress progress(kSteps, {kOld});
  progress.Hear(kX, kOld, kSteps, 1);
  EXPECT_EQ(progress.Next(), 0u);
  EXPECT_FALSE(progress.Done());
  EXPECT_EQ(progress.kept_from(kX), 1u);
  progress.Hear(kX, kOld, kSteps, kSteps);
  EXPECT_TRUE(progress.Done());
}

TEST(LeaseProgressTest, LateAndImpossibleAnswersChangeNothing) {
  LeaseProgress progress(kSteps, {kOld});
  Advance(progress, kX, 2);
  EXPECT_EQ(progress.Hear(kX, kOld, 1, 1), Heard::kNews);
  EXPECT_EQ(progress.Next(), 3u) << "an answer from before does not send it back";
  EXPECT_EQ(progress.Hear(kX, kNew, 0, 0), Heard::kIgnored);
  EXPECT_EQ(progress.Hear(kX, kOld, kSteps + 1, 0), Heard::kIgnored);
  EXPECT_EQ(progress.Hear(kX, kOld, 1, 2), Heard::kIgnored);
  EXPECT_EQ(progress.Next(), 3u);
  EXPECT_EQ(progress.kept_from(kX), 2u);
}

TEST(LeaseProgressTest, ANewEpochDropsAcknowledgements) {
  LeaseProgress progress = TwoSlices();
  Advance(progress, kX, kSteps);
  Advance(progress, kY, kSteps);
  progress.Renew(kX, kNew);
  EXPECT_FALSE(progress.Done());
  EXPECT_FALSE(progress.Known(kX));
  EXPECT_EQ(progress.Hear(kX, kOld, kSteps, kSteps), Heard::kIgnored) << "the old epoch's word counts no longer";
  EXPECT_FALSE(progress.Done());
  EXPECT_EQ(progress.Hear(kX, kNew, kSteps, kSteps), Heard::kFirst);
  EXPECT_TRUE(progress.Done());
}

TEST(LeaseProgressTest, ASliceThatLostWhatIsNoLongerKeptIsComputedAgain) {
  LeaseProgress progress = TwoSlices();
  Advance(progress, kX, 2);
  Advance(progress, kY, 2);
  progress.Keep(kX, 3);
  progress.Keep(kY, 3);
  progress.Renew(kX, kNew);
  progress.Hear(kX, kNew, 1, 1);
  EXPECT_EQ(progress.Next(), 2u);
  EXPECT_TRUE(progress.Lacks(kX, 2));
  EXPECT_FALSE(progress.Lacks(kY, 2));
  EXPECT_EQ(progress.covered(kX), 1u) << "step 3 without step 2 is of no use";
  EXPECT_EQ(progress.covered(kY), 3u);
}

TEST(LeaseProgressTest, ASliceThatLostWhatIsStillKeptIsNot) {
  LeaseProgress progress(kSteps, {kOld});
  progress.Hear(kX, kOld, 0, 0);
  progress.Keep(kX, 1);
  progress.Keep(kX, 2);
  progress.Renew(kX, kNew);
  progress.Hear(kX, kNew, 0, 0);
  EXPECT_EQ(progress.Next(), 3u);
  EXPECT_EQ(progress.kept_from(kX), 0u);
  EXPECT_EQ(progress.covered(kX), 2u);
}

TEST(LeaseProgressTest, AsksAllAgainWhenTheChiefDoesNotBelieve) {
  LeaseProgress progress = TwoSlices();
  Advance(progress, kX, kSteps);
  Advance(progress, kY, kSteps);
  progress.ForgetAnswers();
  EXPECT_FALSE(progress.Done());
  EXPECT_FALSE(progress.AllKnown());
  progress.Hear(kX, kOld, kSteps, kSteps);
  progress.Hear(kY, kOld, 0, 0);  // after all
  EXPECT_EQ(progress.Next(), 1u);
  EXPECT_FALSE(progress.Lacks(kX, 1));
}

// A slice as the ps has it, restored now and then from an earlier state in a new epoch. Answers are delivered late and
// in any order. The lease must still end with every step consumed once, in order, in each slice's last epoch.
struct ModelSlice {
  SliceEpoch epoch = kOld;
  Step applied = 0;
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
    for (const ModelSlice& slice : slices_) EXPECT_EQ(slice.applied, steps_);
  }

 private:
  struct Answer {
    SliceId slice{};
    SliceEpoch epoch;
    Step applied = 0;
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
    answers_.push_back({id, slice.epoch, slice.applied});
  }
  void Deliver() {
    if (answers_.empty()) return;
    const Answer answer = answers_[prng_.Below(answers_.size())];  // may come again
    progress_.Hear(answer.slice, answer.epoch, answer.applied, answer.applied);
    std::set<Step>& kept = kept_[ToNumber(answer.slice)];
    std::erase_if(
        kept, [&](Step s) { return s <= progress_.kept_from(answer.slice) || s > progress_.covered(answer.slice); });
    for (Step s = progress_.kept_from(answer.slice) + 1; s <= progress_.covered(answer.slice); ++s) {
      // Either kept here, or known to be applied already (by another worker).
      ASSERT_TRUE(kept.contains(s) || s <= slices_[ToNumber(answer.slice)].applied);
    }
  }
  void Compute() {
    const Step next = progress_.Next();
    if (next == 0 || !progress_.AllKnown()) return;
    for (uint32_t i = 0; i < slices_.size(); ++i) {
      if (!progress_.Lacks(SliceId{i}, next)) continue;
      progress_.Keep(SliceId{i}, next);
      kept_[i].insert(next);
    }
  }
  void Push(SliceId id) {
    ModelSlice& slice = slices_[ToNumber(id)];
    if (progress_.Known(id) && kept_[ToNumber(id)].contains(slice.applied + 1)) ++slice.applied;
  }
  void Restore(SliceId id) {
    if (!prng_.Chance(0.1)) return;
    ModelSlice& slice = slices_[ToNumber(id)];
    slice.applied = static_cast<Step>(prng_.Below(slice.applied + 1));
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
