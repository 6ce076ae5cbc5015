#include "ps/record_pace.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(made, 10);
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

TEST(RecordPace, NothingIsOwedOnceWorkersAreGone) {
  RecordPace pace = Busy();
  pace.Made(1000 * kRecord);
  pace.Tick();
  EXPECT_TRUE(pace.Allows());
}

}  // namespace
}  // namespace downpour
