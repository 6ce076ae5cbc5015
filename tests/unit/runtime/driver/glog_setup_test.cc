#include "runtime/driver/glog_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "schema/payload.h"
#include "tests/unit/runtime/driver/zmq_test_peer.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Logging is set up once per process: each in one of its own, whose stderr is a file.
TEST(GlogSetupDeathTest, OnlyATerminalGetsColours) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("TERM", "xterm", 1);  // read as the process begins
  const auto log = [] {
    if (!SetUpLogging("program", "", "ps-0").ok()) std::exit(1);
    LogError("something is wrong");
    std::exit(0);
  };
  EXPECT_EXIT(log(), testing::ExitedWithCode(0), AllOf(HasSubstr("something is wrong"), Not(HasSubstr("\x1b"))));
}

TEST(GlogSetupDeathTest, LinesMayGoToAFileAsWell) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempDir dir;
  const auto log = [&] {
    if (!SetUpLogging("program", "", "chief").ok() || !AlsoLogTo(dir / "logs", "chief").ok()) std::exit(1);
    LogError("something is wrong");
    std::ifstream file(dir / "logs/chief.log");
    std::cerr << "file: " << file.rdbuf();
    std::exit(0);
  };
  EXPECT_EXIT(log(), testing::ExitedWithCode(0),
              testing::ContainsRegex("E .* something is wrong\nfile: E 20.* something is wrong\n"));
}

TEST(GlogSetupDeathTest, MemoryThatRunsOutIsToldInASentence) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto take_all = [] {
    if (!SetUpLogging("program", "", "ps-0").ok()) std::exit(1);
    constexpr size_t kMoreThanAddresses = size_t{1} << 60;
    Payload::Allocate(kMoreThanAddresses);
    std::exit(0);
  };
  EXPECT_EXIT(take_all(), testing::KilledBySignal(SIGABRT),
              AllOf(HasSubstr("out of memory: give this process more"), Not(HasSubstr("stack trace"))));
}

}  // namespace
}  // namespace downpour
