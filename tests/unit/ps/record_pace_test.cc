#include "ps/record_pace.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace downpour {
namespace {

constexpr size_t kRecord = size_t{1} << 20;

// Makes every record that it may; how many.
int MakeAllowed(RecordPace& pace, int most = 100) {
  int made = 0;
  for (; made < most && pace.Allows(); ++made) pace.Made(kRecord);
  return made;
}

RecordPace Busy() {
  RecordPace pace;
  pace.Served(kRecord);
  pace.Tick();
  return pace;
}

TEST(RecordPace, RecordsAreFreeWhileNoWorkerComes) {
  RecordPace pace;
  EXPECT_EQ(MakeAllowed(pace), 100);
  pace.Tick();
  EXPECT_EQ(MakeAllowed(pace), 100);
}

TEST(RecordPace, WhatIsMovedForWorkersPaysForRecords) {
  RecordPace pace = Busy();
  int made = 0;
  for (int i = 0; i < 640; ++i) {
    pace.Served(kRecord / 64 * RecordPace::kServedPerByte);
    made += MakeAllowed(pace);
  }
  EXPECT_EQ(made, 11) << "ten, and the first on credit";
}

TEST(RecordPace, ALargeRecordIsPaidForAsALargeOne) {
  RecordPace pace = Busy();
  pace.Made(3 * kRecord);
  pace.Served(2 * kRecord * RecordPace::kServedPerByte);
  EXPECT_FALSE(pace.Allows());
  pace.Served(kRecord * RecordPace::kServedPerByte);
  EXPECT_TRUE(pace.Allows());
}

TEST(RecordPace, WhatWasMovedBeforehandPaysForNothing) {
  RecordPace pace = Busy();
  for (int i = 0; i < 1000; ++i) pace.Served(kRecord);
  EXPECT_EQ(MakeAllowed(pace), 1);
}

TEST(RecordPace, TimePaysToo) {
  RecordPace pace = Busy();
  pace.Made(kRecord);
  for (size_t paid = 0; paid < kRecord; paid += RecordPace::kPaidByTick) {
    EXPECT_FALSE(pace.Allows());
    pace.Served(1);  // next to nothing
    pace.Tick();
  }
  EXPECT_TRUE(pace.Allows());
}

TEST(RecordPace, TimePaysOnlyWhatWorkersDoNot) {
  RecordPace pace = Busy();
  pace.Made(2 * RecordPace::kPaidByTick);
  pace.Served(RecordPace::kPaidByTick * RecordPace::kServedPerByte);
  pace.Tick();
  EXPECT_FALSE(pace.Allows());
}

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kTicksOfAGiB = kGiB / RecordPace::kPaidByTick;

// Until a GiB is made, in records of that size, while so many bytes are moved for workers from one Tick to the next.
int64_t TicksForAGiB(size_t record, size_t moved) {
  constexpr size_t kMessages = 64;
  RecordPace pace = Busy();
  int64_t ticks = 0;
  for (int64_t made = 0; made < kGiB; ++ticks) {
    for (size_t i = 0; i < kMessages; ++i) {
      for (; made < kGiB && pace.Allows(); made += static_cast<int64_t>(record)) pace.Made(record);
      pace.Served(moved / kMessages);
    }
    pace.Tick();
  }
  return ticks;
}

// 20 ms each: 41 s.
TEST(RecordPace, AGiBTakesNoMoreThanItsTimeHoweverItIsCut) {
  for (const size_t record : {size_t{4} << 10, size_t{64} << 10, kRecord, kRecord + 132, 3 * kRecord + 132}) {
    const int64_t ticks = TicksForAGiB(record, 64);
    EXPECT_LE(ticks, kTicksOfAGiB + 1) << record;
    EXPECT_GE(ticks, kTicksOfAGiB - static_cast<int64_t>(1 + record / RecordPace::kPaidByTick)) << record;
  }
}

// As when numbers travel as bfloat16.
TEST(RecordPace, HalfTheBytesPayHalfButNoLessThanTimeDoes) {
  constexpr size_t kAsTime = RecordPace::kPaidByTick * RecordPace::kServedPerByte;
  EXPECT_NEAR(static_cast<double>(TicksForAGiB(kRecord + 132, 4 * kAsTime)), kTicksOfAGiB / 4, 2);
  EXPECT_NEAR(static_cast<double>(TicksForAGiB(kRecord + 132, 2 * kAsTime)), kTicksOfAGiB / 2, 3);
  EXPECT_NEAR(static_cast<double>(TicksForAGiB(kRecord + 132, kAsTime)), kTicksOfAGiB, 3);
  EXPECT_NEAR(static_cast<double>(TicksForAGiB(kRecord + 132, kAsTime / 2)), kTicksOfAGiB, 3);
}

TEST(RecordPace, NothingIsOwedOnceWorkersAreGone) {
  RecordPace pace = Busy();
  pace.Made(1000 * kRecord);
  pace.Tick();
  EXPECT_TRUE(pace.Allows());
}

}  // namespace
}  // namespace downpour
