#include "tools/log_merger.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

TEST(LogMergerTest, OrdersByTimeAndNamesTheTask) {
  LogMerger merger({"chief", "worker-0"});
  merger.Add("chief", "I 10:00:00.000002 b\nI 10:00:00.000004 d\n");
  merger.Add("worker-0", "I 10:00:00.000001 a\nW 10:00:00.000003 c\n");
  EXPECT_EQ(merger.Take(),
            "worker-0 | I 10:00:00.000001 a\n"
            "chief    | I 10:00:00.000002 b\n"
            "worker-0 | W 10:00:00.000003 c\n"
            "chief    | I 10:00:00.000004 d\n");
  EXPECT_EQ(merger.Take(), "");
}

TEST(LogMergerTest, LinesWithoutATimeFollowTheOneBefore) {
  LogMerger merger({"a", "b"});
  merger.Add("a", "I 10:00:00.000001 crash\n  at here\n");
  merger.Add("b", "I 10:00:00.000002 next\n");
  EXPECT_EQ(merger.Take(), "a | I 10:00:00.000001 crash\na |   at here\nb | I 10:00:00.000002 next\n");
}

TEST(LogMergerTest, MidnightGoesOn) {
  LogMerger merger({"a", "b"});
  merger.Add("a", "I 23:59:59.000000 a1\nI 00:00:01.000000 a2\n");
  merger.Add("b", "I 23:59:59.500000 b1\nI 00:00:00.500000 b2\n");
  EXPECT_EQ(merger.Take(),
            "a | I 23:59:59.000000 a1\nb | I 23:59:59.500000 b1\nb | I 00:00:00.500000 b2\na | I 00:00:01.000000 a2\n");
}

TEST(LogMergerTest, OneTaskIsNotNamedAndPartsOfLinesWait) {
  LogMerger merger({"a"});
  merger.Add("a", "I 10:00:00.00000");
  EXPECT_EQ(merger.Take(), "");
  merger.Add("a", "1 whole\nrest");
  EXPECT_EQ(merger.Take(), "I 10:00:00.000001 whole\n");
  EXPECT_EQ(merger.TakeAll(), "rest\n");
  EXPECT_EQ(merger.TakeAll(), "");
}

TEST(LogMergerTest, LinesCannotDriveTheTerminal) {
  LogMerger merger({"a"});
  merger.Add("a", "x\x1b[2Jy\n");
  EXPECT_EQ(merger.Take(), "x?[2Jy\n");
}

}  // namespace
}  // namespace downpour
