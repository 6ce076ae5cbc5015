// What the user's Python process asks for, as it lies in memory, and what becomes of it in frames.
#include "worker/python/child_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/row_frames.h"
#include "schema/limits.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ChildRowsTest : public testing::Test {
 protected:
  ChildRowsTest() { Make(4); }

  void Make(int64_t buckets) {
    ModelSpec model;
    model.loss = Loss::kOwn;
    model.variables = {{"w", {3}}};
    model.tables = {{.name = "a", .width = 2}, {.name = "b", .width = 1}};
    model.table_buckets = buckets;
    grid_ = GridOf(model).value();
    most_ = ChildRows::MostNumbers(grid_);
    memory_.assign(ChildRows::BytesOf(most_), std::byte{});
    rows_ = ChildRows(&grid_, memory_.data());
    rows_.Begin();
  }

  // As the child says it, in JSON.
  absl::StatusOr<SliceValues> Ask(const std::string& asked, const std::vector<uint64_t>& keys) {
    std::memcpy(memory_.data(), keys.data(), keys.size() * sizeof(uint64_t));
    return rows_.Ask(nlohmann::json::parse(asked));
  }

  float* values() { return reinterpret_cast<float*>(memory_.data() + most_ * sizeof(uint64_t)); }
  float* gradients() { return values() + most_; }

  // Rows that say whose they are: its table, then its key.
  SliceValues Answer(const SliceValues& frames) {
    SliceValues answer = {{SliceId{0}, Payload::Zeros(12)}};
    for (const auto& [bucket, frame] : frames) {
      const RowKeys keys = UnpackKeys(frame, grid_.row_widths).value();
      Payload rows = Payload::Allocate(RowBytes(keys, grid_.row_widths));
      size_t key = 0, at = 0;
      for (size_t table = 0; table < keys.counts.size(); ++table) {
        for (uint32_t i = 0; i < keys.counts[table]; ++i, ++key) {
          for (uint32_t j = 0; j < grid_.row_widths[table]; ++j) {
            rows.mutable_floats()[at++] = static_cast<float>(1000 * table + 10 * keys.keys[key] + j);
          }
        }
      }
      answer.emplace_back(bucket, rows);
    }
    return answer;
  }

  SliceGrid grid_;
  uint64_t most_ = 0;
  std::vector<std::byte> memory_;
  ChildRows rows_;
};

TEST_F(ChildRowsTest, RowsComeInTheOrderInWhichTheyWereAskedFor) {
  const SliceValues first = Ask("[[0, 3], [1, 2]]", {5, 6, 7, 1, 5}).value();
  for (const auto& [bucket, frame] : first) {
    EXPECT_TRUE(AreInBucket(frame, 2, static_cast<uint32_t>(grid_.at(bucket).offset), 4));
  }
  ASSERT_TRUE(rows_.Lay(Answer(first)).ok());
  EXPECT_THAT(std::vector<float>(values(), values() + 8), ElementsAre(50, 51, 60, 61, 70, 71, 1010, 1050));
  const SliceValues second = Ask("[[0, 1]]", {2}).value();
  ASSERT_EQ(second.size(), 1u) << "what is here is not asked for again";
  ASSERT_TRUE(rows_.Lay(Answer(second)).ok());
  EXPECT_THAT(std::vector<float>(values() + 6, values() + 10), ElementsAre(1010, 1050, 20, 21));
}

TEST_F(ChildRowsTest, GradientsAreFramesOfAllThatWasAskedFor) {
  Make(1);
  ASSERT_TRUE(rows_.Lay(Answer(Ask("[[0, 1], [1, 1]]", {5, 5}).value())).ok());
  ASSERT_TRUE(rows_.Lay(Answer(Ask("[[0, 2]]", {2, 9}).value())).ok());
  for (int i = 0; i < 7; ++i) gradients()[i] = static_cast<float>(i);
  SliceValues slices;
  rows_.AppendGradients(&slices);
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].first, grid_.BucketAt(0));
  const RowGradients push = UnpackGradients(slices[0].second, grid_.row_widths).value();
  EXPECT_THAT(push.rows.counts, ElementsAre(3, 1));
  EXPECT_THAT(push.rows.keys, ElementsAre(2, 5, 9, 5));
  EXPECT_THAT(push.numbers, ElementsAre(3, 4, 0, 1, 5, 6, 2));
  rows_.Begin();
  slices.clear();
  rows_.AppendGradients(&slices);
  EXPECT_TRUE(slices.empty()) << "another step";
}

TEST_F(ChildRowsTest, WhatNobodyWantsIsComputedOnZeros) {
  ASSERT_TRUE(rows_.Lay(Answer(Ask("[[1, 1]]", {3}).value())).ok());
  values()[1] = values()[2] = 7;
  ASSERT_TRUE(Ask("[[0, 1]]", {3}).ok());
  rows_.LayNothing();
  EXPECT_THAT(std::vector<float>(values(), values() + 3), ElementsAre(1030, 0, 0));
}

TEST_F(ChildRowsTest, AProcessThatAsksForWhatCannotBeIsRefused) {
  const std::pair<std::string, const char*> cases[] = {
      {"7", "without saying of which tables"},
      {"[7]", "without saying of which table, and how many"},
      {"[[0, -1]]", "without saying of which table"},
      {"[[0, 1.5]]", "without saying of which table"},
      {"[[2, 1]]", "of table 2, of which there are 2"},
      {"[[1, 1], [0, 1]]", "of tables that do not ascend"},
      {"[[0, 1], [0, 1]]", "of tables that do not ascend"},
      {"[[0, 2]]", "of keys that do not ascend"},
      {"[[0, 18446744073709551615]]", "of more numbers than a step may have"},
      {absl::StrCat("[[1, ", most_ + 1, "]]"), "of more numbers than a step may have"},
      {absl::StrCat("[[0, ", most_, "]]"), "of more numbers than a step may have"},
  };
  for (const auto& [asked, what] : cases) {
    Make(4);
    const absl::Status status = Ask(asked, {5, 5, 5}).status();
    EXPECT_TRUE(absl::IsAborted(status)) << asked;
    EXPECT_THAT(status.message(), HasSubstr(what)) << asked;
  }
}

TEST_F(ChildRowsTest, OfOneBucketAStepHasWhatAMessageHolds) {
  Make(1);
  const uint64_t fits = kMaxFrameBytes / (sizeof(uint64_t) + sizeof(float)) - 1;
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; key <= fits; ++key) keys.push_back(key);
  EXPECT_TRUE(Ask(absl::StrCat("[[1, ", fits, "]]"), keys).ok());
  const absl::Status status = Ask("[[1, 1]]", {fits + 1}).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("give the job more buckets (model.tableBuckets) or smaller batches"));
}

TEST_F(ChildRowsTest, AnswersOfOtherKeysAreRefused) {
  Make(1);
  const SliceValues frames = Ask("[[0, 1], [1, 1]]", {5, 5}).value();
  const SliceId bucket = grid_.BucketAt(0);
  EXPECT_TRUE(rows_.Lay({{bucket, Payload::Zeros(12)}}).ok());
  for (const SliceValues& wrong : {SliceValues{}, SliceValues{{bucket, Payload::Zeros(8)}},
                                   SliceValues{{bucket, Payload::Zeros(16)}}, SliceValues{{bucket, Payload()}}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(rows_.Lay(wrong)));
  }
  rows_.Begin();
  EXPECT_TRUE(absl::IsInvalidArgument(rows_.Lay({{bucket, Payload::Zeros(12)}}))) << "none were asked for";
}

}  // namespace
}  // namespace downpour
