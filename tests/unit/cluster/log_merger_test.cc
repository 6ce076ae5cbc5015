#include "cluster/log_merger.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

TEST(LogMergerTest, OrdersByTimeAndNamesTheTask) {
  LogMerger merger({"chief", "worker-0"});
  merger.Add("chief", "I 2024-11-20 10:00:00.002 b\nI 2024-11-20 10:00:00.004 d\n");
  merger.Add("worker-0", "I 2024-11-20 10:00:00.001 a\nW 2024-11-20 10:00:00.003 c\n");
  EXPECT_EQ(merger.Take(),
            "worker-0 | I 2024-11-20 10:00:00.001 a\n"
            "chief    | I 2024-11-20 10:00:00.002 b\n"
            "worker-0 | W 2024-11-20 10:00:00.003 c\n"
            "chief    | I 2024-11-20 10:00:00.004 d\n");
  EXPECT_EQ(merger.Take(), "");
}

TEST(LogMergerTest, LinesWithoutATimeFollowTheOneBefore) {
  LogMerger merger({"a", "b"});
  merger.Add("a", "I 2024-11-20 10:00:00.001 crash\n  at here\n");
  merger.Add("b", "I 2024-11-20 10:00:00.002 next\n");
  EXPECT_EQ(merger.Take(), "a | I 2024-11-20 10:00:00.001 crash\na |   at here\nb | I 2024-11-20 10:00:00.002 next\n");
}

TEST(LogMergerTest, AClockSetBackKeepsTheOrderOfATask) {
  LogMerger merger({"a", "b"});
  merger.Add("a", "I 2024-11-20 23:59:59.000 a1\nI 2024-11-20 23:00:00.000 a2\n");
  merger.Add("b", "I 2024-11-20 23:59:58.000 b1\nI 2024-11-21 00:00:00.500 b2\n");
  EXPECT_EQ(merger.Take(),
            "b | I 2024-11-20 23:59:58.000 b1\n"
            "a | I 2024-11-20 23:59:59.000 a1\n"
            "a | I 2024-11-20 23:00:00.000 a2\n"
            "b | I 2024-11-21 00:00:00.500 b2\n");
}

TEST(LogMergerTest, OneTaskIsNotNamedAndPartsOfLinesWait) {
  LogMerger merger({"a"});
  merger.Add("a", "I 2024-11-20 10:00:00.00");
  EXPECT_EQ(merger.Take(), "");
  merger.Add("a", "1 whole\nrest");
  EXPECT_EQ(merger.Take(), "I 2024-11-20 10:00:00.001 whole\n");
  EXPECT_EQ(merger.TakeAll(), "rest\n");
  EXPECT_EQ(merger.TakeAll(), "");
}

TEST(LogMergerTest, LinesCannotDriveTheTerminal) {
  LogMerger merger({"a"});
  merger.Add("a", "x\x1b[2Jy\n");
  EXPECT_EQ(merger.Take(), "x?[2Jy\n");
  LogMerger named({"a", "b"});
  named.Add("\x1b", "x\n");
  EXPECT_EQ(named.Take(), "? | x\n") << "files are named by who may write into the folder";
}

}  // namespace
}  // namespace downpour
