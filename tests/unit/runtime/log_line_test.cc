#include "runtime/log_line.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

TEST(LogLineTest, BeginsWithSeverityAndTimeInUtc) {
  EXPECT_EQ(LogPrefix('I', 0), "I 1970-01-01 00:00:00.000");
  EXPECT_EQ(LogPrefix('W', 1709251199'042), "W 2024-02-29 23:59:59.042");
  EXPECT_EQ(LogPrefix('E', -1), "E 1969-12-31 23:59:59.999");
}

}  // namespace
}  // namespace downpour
