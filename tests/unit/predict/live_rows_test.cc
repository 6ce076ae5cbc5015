#include "predict/live_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/row_frames.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Two tables, of rows of two numbers and of one, in so many buckets behind one slice of a variable.
std::shared_ptr<const SliceGrid> GridWith(uint32_t buckets) {
  SliceGrid grid;
  grid.slices.push_back({SliceId{0}, 0, 0, 4});
  for (uint32_t i = 0; i < buckets; ++i) grid.slices.push_back({SliceId{i + 1}, kNoVariable, i, 0});
  grid.row_widths = {2, 1};
  grid.buckets = buckets;
  return std::make_shared<const SliceGrid>(std::move(grid));
}

// A row of a key has the number 10 * key + table, in all places.
SliceValues AnswerTo(const SliceValues& keys, const SliceGrid& grid) {
  SliceValues rows;
  for (const auto& [slice, frame] : keys) {
    const RowKeys wanted = UnpackKeys(frame, grid.row_widths).value();
    std::vector<float> numbers;
    size_t at = 0;
    for (size_t table = 0; table < wanted.counts.size(); ++table) {
      for (uint32_t i = 0; i < wanted.counts[table]; ++i, ++at) {
        EXPECT_TRUE(AreInBucket(frame, 2, static_cast<uint32_t>(grid.at(slice).offset), grid.buckets));
        numbers.insert(numbers.end(), grid.row_widths[table], static_cast<float>(10 * wanted.keys[at] + table));
      }
    }
    rows.emplace_back(slice, Payload::CopyOf(numbers.data(), numbers.size() * sizeof(float)));
  }
  return rows;
}

TEST(LiveRowsTest, RowsComeToTheirKeysWhateverTheirBuckets) {
  for (const uint32_t buckets : {1u, 8u}) {
    const auto grid = GridWith(buckets);
    std::thread feed;
    LiveRows* self = nullptr;
    LiveRows rows([&] {
      feed = std::thread([&] {
        LiveRows::News news = self->Take();
        ASSERT_THAT(news.asked, SizeIs(1));
        self->Answer(news.asked[0].number, AnswerTo(news.asked[0].keys, *grid));
      });
    });
    self = &rows;
    rows.UseGrid(grid);
    const absl::StatusOr<TableValues> values = rows.Fetch({{3, 7, 11}, {3, 8}});
    feed.join();
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_THAT((*values)[0], ElementsAre(30, 30, 70, 70, 110, 110));
    EXPECT_THAT((*values)[1], ElementsAre(31, 81));
  }
}

TEST(LiveRowsTest, WhoWantsNoneAsksNobody) {
  LiveRows rows([] { ADD_FAILURE(); });
  rows.UseGrid(GridWith(2));
  EXPECT_THAT(rows.Fetch({{}, {}}).value(), SizeIs(2));
}

TEST(LiveRowsTest, WhatDoesNotComeIsForgotten) {
  LiveRows rows([] {});
  rows.UseGrid(GridWith(2));
  EXPECT_EQ(rows.Fetch({{3}, {}}).status().code(), absl::StatusCode::kUnavailable);
  const LiveRows::News news = rows.Take();
  ASSERT_THAT(news.asked, SizeIs(1));
  EXPECT_THAT(news.forgotten, ElementsAre(news.asked[0].number));
  rows.Answer(news.asked[0].number, {});  // too late
  rows.Close(absl::NotFoundError("the job of runs/first is over"));
  const absl::Status refused = rows.Fetch({{3}, {}}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the job of runs/first is over"));
  EXPECT_THAT(rows.Take().asked, IsEmpty()) << "nobody is there to answer";
}

// The others would have every thread of a service stand still.
TEST(LiveRowsTest, OneQuestionWaitsForASilentServerAndTheOthersGiveUp) {
  const auto grid = GridWith(2);
  LiveRows rows([] {});
  rows.UseGrid(grid);
  EXPECT_FALSE(rows.Fetch({{3}, {}}).ok());  // some server is silent
  rows.Take();
  absl::StatusOr<TableValues> first;
  for (int i = 0; i < 3 && !first.ok(); ++i) {  // this thread may have been held up
    std::thread asks([&] { first = rows.Fetch({{3}, {}}); });
    LiveRows::News news;
    while (news.asked.empty()) news = rows.Take();
    for (int other = 0; other < 3; ++other) {
      EXPECT_EQ(rows.Fetch({{4}, {}}).status().code(), absl::StatusCode::kUnavailable);
    }
    rows.Answer(news.asked[0].number, AnswerTo(news.asked[0].keys, *grid));
    asks.join();
    rows.Take();
  }
  EXPECT_TRUE(first.ok()) << "it gave up before the others";
}

TEST(LiveRowsTest, MoreThanAFrameHoldsIsRefused) {
  LiveRows rows([] { ADD_FAILURE(); });
  rows.UseGrid(GridWith(1));
  std::vector<uint64_t> keys(200'000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  EXPECT_THAT(std::string(rows.Fetch({keys, {}}).status().message()), HasSubstr("send fewer at a time"));
}

}  // namespace
}  // namespace downpour
