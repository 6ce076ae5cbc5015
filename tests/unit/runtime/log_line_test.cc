#include "runtime/log_line.h"

#include <gtest/gtest.h>

#include <vector>

namespace downpour {
namespace {

TEST(LogLineTest, BeginsWithSeverityAndTimeInUtc) {
  EXPECT_EQ(LogPrefix('I', 0), "I 1970-01-01 00:00:00.000");
  EXPECT_EQ(LogPrefix('W', 1709251199'042), "W 2024-02-29 23:59:59.042");
  EXPECT_EQ(LogPrefix('E', -1), "E 1969-12-31 23:59:59.999");
}

TEST(LogLineTest, IsTakenApartAgain) {
  const std::string prefix = LogPrefix('W', 1709251199'042);
  EXPECT_EQ(TimeOfLine(prefix + " disk: full"), "2024-02-29 23:59:59.042");
  EXPECT_EQ(WordsOfLine(prefix + " disk: full"), "disk: full");
  for (const std::string other : {"terminate called", "W 2024-02-29 23.59.59.042 x", ""}) {
    EXPECT_EQ(TimeOfLine(other), "");
    EXPECT_EQ(WordsOfLine(other), other);
  }
}

TEST(LogLineTest, WhatPeersCauseIsLoggedEverMoreRarely) {
  std::vector<uint64_t> logged;
  for (uint64_t count = 1; count <= 1000; ++count) {
    if (WorthALine(count)) logged.push_back(count);
  }
  EXPECT_EQ(logged, (std::vector<uint64_t>{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}));
}

}  // namespace
}  // namespace downpour
