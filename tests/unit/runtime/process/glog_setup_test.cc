#include "runtime/process/glog_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "schema/payload.h"
#include "tests/unit/runtime/zmq/test_peer.h"

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

TEST(GlogSetupDeathTest, AProgramThatSaysItselfWhatGoesWellLogsTroubleAlone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto log = [] {
    LogTroubleAlone("program");
    LogInfo("nobody reads here any more");
    LogWarning("a peer was refused");
    std::exit(0);
  };
  EXPECT_EXIT(log(), testing::ExitedWithCode(0), testing::MatchesRegex("W 20.* a peer was refused\n"));
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

// As `ulimit -f` has it: SIGXFSZ would end the process without a word.
TEST(GlogSetupDeathTest, AFileThatMayNotGrowIsLikeAFullDisk) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempDir dir;
  const auto write_beyond = [&] {
    const rlimit few = {4096, 4096};  // the warning has room, since standard error is a file here
    if (setrlimit(RLIMIT_FSIZE, &few) != 0) std::exit(2);
    if (!SetUpLogging("program", "", "ps-0").ok()) std::exit(1);
    std::FILE* const file = std::fopen((dir / "file").c_str(), "w");
    const std::string more(5000, 'x');
    const bool written = file != nullptr && std::fputs(more.c_str(), file) >= 0 && std::fflush(file) == 0;
    std::exit(!written && errno == EFBIG ? 0 : 3);
  };
  EXPECT_EXIT(write_beyond(), testing::ExitedWithCode(0),
              "W .* a file may have at most 4096 bytes here .`ulimit -f`.: ");
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
