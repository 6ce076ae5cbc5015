#include "worker/pull_round.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "schema/codec.h"
#include "tests/unit/worker/three_slices.h"

namespace downpour {
namespace {

constexpr Time kStart{};

class PullRoundTest : public testing::Test {
 protected:
  PullRoundTest() {
    placement_.term = 1;
    placement_.servers = {{kPs, "ps-0", "h:1"}};
    for (uint32_t i = 0; i < 3; ++i) placement_.slices.push_back({SliceId{i}, {1, 1}, 0});
    Adopt();
    link().window = 8 * kMiB;
  }

  void Adopt() {
    ++placement_.number;
    Effects effects;
    map_.Adopt(placement_, effects);
  }
  // Into a new epoch, at the same ps.
  void Move(uint32_t slice) {
    round_.Forget(link(), SliceId{slice});
    ++placement_.slices[slice].epoch.n;
    Adopt();
  }

  PsLink& link() { return map_.link_of(SliceId{0}); }
  std::optional<Pull> Next() { return round_.Next(kStart, kMe, link(), map_, have_); }
  PullRound::Again AskAgain(Time now) { return round_.AskAgain(now, /*data_retry=*/2s, kMe, link(), map_, have_); }
  std::vector<Pull> Overdue(Time now) { return AskAgain(now).pulls; }
  // An answer with values for these slices.
  void Receive(uint64_t request, const std::vector<uint32_t>& slices, bool take = true) {
    PullReply reply;
    reply.request = request;
    for (const uint32_t slice : slices) reply.slices.push_back({SliceId{slice}, SliceRefusal::kNone, {}, {}});
    round_.Receive(reply, link(), kStart + 500ms, [&](const PullReply::Item&) { return take; });
  }

  SliceGrid grid_ = ThreeSlices();
  Placement placement_;
  PlacementMap map_{3, PeerId{2}};
  PullRound round_{&grid_};
  std::vector<Version> have_ = std::vector<Version>(3);
};

TEST_F(PullRoundTest, AsksForAMegabyteAtATimeAndIsFreshWhenAllIsHere) {
  EXPECT_EQ(Next(), std::nullopt) << "nobody began";
  round_.Begin(PullRound::Of::kAll);
  std::vector<size_t> sizes;
  while (const std::optional<Pull> pull = Next()) sizes.push_back(pull->slices.size());
  EXPECT_EQ(sizes, (std::vector<size_t>{1, 1, 1}));
  EXPECT_EQ(link().unanswered, 2 * kMiB + 32);
  Receive(1, {0});
  Receive(3, {2});
  EXPECT_TRUE(round_.under_way());
  EXPECT_FALSE(round_.fresh());
  Receive(2, {1});
  EXPECT_TRUE(round_.fresh());
  EXPECT_EQ(link().unanswered, 0u);
  round_.TakePulled();
  EXPECT_FALSE(round_.fresh());
  EXPECT_FALSE(round_.under_way());
}

// Rows of one number: their keys are twice as long.
TEST_F(PullRoundTest, AQuestionHasAMegabyteOfKeysAtMost) {
  SliceGrid grid;
  grid.slices = {{SliceId{0}, kNoVariable, 0, 0}, {SliceId{1}, kNoVariable, 1, 0}, {SliceId{2}, kNoVariable, 2, 0}};
  grid.row_widths = {1};
  grid.buckets = 3;
  PullRound round{&grid};
  RowKeys keys{.counts = {60'000}, .keys = {}};
  for (uint64_t key = 0; key < 60'000; ++key) keys.keys.push_back(key);
  round.Want({{SliceId{0}, PackKeys(keys)}, {SliceId{1}, PackKeys(keys)}, {SliceId{2}, PackKeys(keys)}});
  round.Begin(PullRound::Of::kRows);
  std::vector<size_t> sizes;
  while (const std::optional<Pull> pull = round.Next(kStart, kMe, link(), map_, have_)) {
    sizes.push_back(pull->slices.size());
    EXPECT_TRUE(EncodeWithinLimits(*pull, 0).ok()) << "else it is never sent";
  }
  EXPECT_EQ(sizes, (std::vector<size_t>{2, 1}));
}

TEST_F(PullRoundTest, StaysWithinTheWindow) {
  link().window = kMiB;
  round_.Begin(PullRound::Of::kAll);
  EXPECT_TRUE(Next().has_value());
  EXPECT_EQ(Next(), std::nullopt);
  Receive(1, {0});
  EXPECT_TRUE(Next().has_value());
}

TEST_F(PullRoundTest, AnAnswerCountsOnce) {
  round_.Begin(PullRound::Of::kAll);
  while (Next()) {
  }
  Receive(1, {0});
  Receive(1, {0});
  Receive(99, {1});
  EXPECT_EQ(link().unanswered, kMiB + 32);
  EXPECT_TRUE(round_.under_way());
}

// A late answer must not be taken for one of a newer round: its values may lack what was pushed in between.
TEST_F(PullRoundTest, AnAnswerOfAnEarlierRoundIsNoNews) {
  round_.Begin(PullRound::Of::kAll);
  while (Next()) {
  }
  for (uint32_t i = 0; i < 3; ++i) Receive(i + 1, {i});
  round_.TakePulled();
  round_.Begin(PullRound::Of::kAll);
  while (Next()) {
  }
  for (uint32_t i = 0; i < 3; ++i) Receive(i + 1, {i});
  EXPECT_FALSE(round_.fresh());
  for (uint32_t i = 0; i < 3; ++i) Receive(i + 4, {i});
  EXPECT_TRUE(round_.fresh());
}

TEST_F(PullRoundTest, AsksAgainUnderTheSameNumberSoThatASlowAnswerStillCounts) {
  round_.Begin(PullRound::Of::kAll);
  while (Next()) {
  }
  EXPECT_TRUE(Overdue(kStart + 1s).empty());
  const PullRound::Again again = AskAgain(kStart + 2s);
  ASSERT_EQ(again.pulls.size(), 3u);
  EXPECT_EQ(again.pulls[0].request, 1u);
  EXPECT_TRUE(again.unanswered);
  EXPECT_TRUE(Overdue(kStart + 3s).empty());
  Receive(1, {0});  // the answer to the first asking
  EXPECT_EQ(Overdue(kStart + 10s).size(), 2u);
}

TEST_F(PullRoundTest, WhatWasRefusedIsAskedAgainSoon) {
  round_.Begin(PullRound::Of::kAll);
  Next();
  Receive(1, {0}, /*take=*/false);
  EXPECT_EQ(link().unanswered, kMiB);
  const PullRound::Again again = AskAgain(kStart + 500ms);
  EXPECT_EQ(again.pulls.size(), 1u);
  EXPECT_FALSE(again.unanswered) << "no sign of a slow link";
}

// The second asking crosses the answer that lacked a slice: its own answer has them all.
TEST_F(PullRoundTest, ALateAnswerFillsWhatAnEarlierOneLacked) {
  grid_.slices[0].elements = grid_.slices[1].elements = 8;
  round_.Begin(PullRound::Of::kAll);
  ASSERT_EQ(Next()->slices.size(), 3u);
  ASSERT_EQ(Overdue(kStart + 2s).size(), 1u);
  Receive(1, {0, 2});
  EXPECT_FALSE(round_.fresh());
  Receive(1, {0, 1, 2});
  EXPECT_TRUE(round_.fresh());
  EXPECT_EQ(link().unanswered, 0u);
}

TEST_F(PullRoundTest, ASliceThatMovesIsAskedAnew) {
  round_.Begin(PullRound::Of::kAll);
  while (Next()) {
  }
  Move(1);
  EXPECT_EQ(link().unanswered, kMiB + 32);
  Receive(2, {1});  // from where it was
  const std::optional<Pull> pull = Next();
  ASSERT_TRUE(pull.has_value());
  EXPECT_EQ(pull->slices[0].slice, SliceId{1});
  Receive(1, {0});
  Receive(3, {2});
  EXPECT_TRUE(round_.under_way());
  Receive(4, {1});
  EXPECT_TRUE(round_.fresh());
}

// Amid a step, whose variables stay as they are.
TEST_F(PullRoundTest, ARoundOfRowsAsksForNothingElse) {
  grid_.slices[2] = {SliceId{2}, kNoVariable, 0, 0};
  grid_.row_widths = {2};
  grid_.buckets = 1;
  round_.Want({{SliceId{2}, PackKeys({.counts = {1}, .keys = {7}})}});
  round_.Begin(PullRound::Of::kRows);
  const std::optional<Pull> pull = Next();
  ASSERT_TRUE(pull.has_value());
  ASSERT_EQ(pull->slices.size(), 1u);
  EXPECT_EQ(pull->slices[0].slice, SliceId{2});
  Move(0);
  EXPECT_EQ(Next(), std::nullopt);
  Receive(1, {2});
  EXPECT_TRUE(round_.has_rows());
  EXPECT_FALSE(round_.fresh()) << "for a step that begins";
  Move(2);
  EXPECT_FALSE(round_.has_rows());
  ASSERT_TRUE(Next().has_value());
  Receive(2, {2});
  EXPECT_TRUE(round_.has_rows());
}

// Its values are of a place that it has left.
TEST_F(PullRoundTest, ASliceThatMovesIsAskedAnewThoughItsValuesCame) {
  round_.Begin(PullRound::Of::kAll);
  while (Next()) {
  }
  Receive(1, {0});
  Move(0);
  EXPECT_EQ(link().unanswered, kMiB + 32);
  ASSERT_TRUE(Next().has_value());
  for (uint32_t i = 1; i < 3; ++i) Receive(i + 1, {i});
  EXPECT_TRUE(round_.under_way());
  Receive(4, {0});
  ASSERT_TRUE(round_.fresh());
  Move(2);
  EXPECT_FALSE(round_.fresh());
  Move(2);
  ASSERT_TRUE(Next().has_value());
  Receive(5, {2});
  EXPECT_TRUE(round_.fresh());
  EXPECT_EQ(link().unanswered, 0u);
  round_.TakePulled();
  Move(1);
  EXPECT_FALSE(round_.under_way()) << "they were used";
}

}  // namespace
}  // namespace downpour
