#include "ps/report_parts.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "schema/codec.h"

namespace downpour {
namespace {

IntervalSet SetOf(uint64_t intervals) {
  IntervalSet set;
  for (uint64_t i = 0; i < intervals; ++i) set.Insert(2 * i);
  return set;
}

SliceReport ReportOf(uint32_t slices, uint64_t intervals) {
  SliceReport report{.from = Incarnation{7}, .slices = {}};
  for (uint32_t i = 0; i < slices; ++i) report.slices.push_back({SliceId{i}, {1, 1}, "", SetOf(intervals)});
  return report;
}

template <typename Report>
std::vector<Report> PartsOf(Report report, uint64_t part_bytes) {
  Effects effects;
  SendInParts(std::move(report), part_bytes, PeerId{1}, effects);
  std::vector<Report> parts;
  for (Effect& effect : effects.Take()) parts.push_back(std::get<Report>(std::get<Send>(effect).message));
  return parts;
}

TEST(ReportPartsTest, EachPartIsAMessageAndAllOfThemSayWhatTheWholeSays) {
  const std::vector<SliceReport> parts = PartsOf(ReportOf(2000, 300), kReportPartBytes);
  uint32_t next = 0;
  for (const SliceReport& part : parts) {
    const auto frames = EncodeWithinLimits(part);
    ASSERT_TRUE(frames.ok()) << frames.status();
    EXPECT_LE((*frames)[0].size(), kReportPartBytes);
    EXPECT_EQ(part.from, Incarnation{7});
    for (const SliceReport::Item& item : part.slices) {
      EXPECT_EQ(item.slice, SliceId{next++});
      EXPECT_EQ(item.finished.IntervalCount(), 300u);
    }
  }
  EXPECT_EQ(next, 2000u);
  EXPECT_LT(parts.size(), 50u) << "a message costs more than its bytes";
}

TEST(ReportPartsTest, LongErrorsCountToo) {
  SliceReport report = ReportOf(2000, 0);
  for (SliceReport::Item& item : report.slices) item.error = std::string(kMaxStringBytes, 'x');
  for (const SliceReport& part : PartsOf(std::move(report), kReportPartBytes)) {
    EXPECT_TRUE(EncodeWithinLimits(part).ok());
  }
}

TEST(ReportPartsTest, ASliceIsNeverCut) {
  const std::vector<SliceReport> parts = PartsOf(ReportOf(3, 49000), 1);
  ASSERT_EQ(parts.size(), 3u);
  for (const SliceReport& part : parts) EXPECT_TRUE(EncodeWithinLimits(part).ok());
}

TEST(ReportPartsTest, WhatHasNoSlicesIsOnePart) {
  const ShardWritten written{.from = Incarnation{7}, .round = {1, 2}, .error = "no space", .bytes = 9, .slices = {}};
  const std::vector<ShardWritten> parts = PartsOf(written, kReportPartBytes);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].error, "no space");
  EXPECT_EQ(parts[0].bytes, 9u);
  EXPECT_EQ(parts[0].round, (Round{1, 2}));
}

}  // namespace
}  // namespace downpour
