#include "runtime/process/crash_notes.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::ExitedWithCode;
using ::testing::IsEmpty;
using ::testing::KilledBySignal;

constexpr PushName kName{UINT64_MAX, LeaseId{12345678901}, 3, SliceId{UINT32_MAX}};

class CrashNotesDeathTest : public testing::Test {
 protected:
  ~CrashNotesDeathTest() override { std::filesystem::remove(path_); }

  // In a process of its own, which has begun to apply that push.
  void Apply(const std::function<void(Applying&)>& then) const {
    google::InstallFailureSignalHandler();
    Applying applying;
    NoteCrashes(path_, &applying);
    applying.Begin(kName);
    then(applying);
    std::_Exit(0);
  }

  const std::string path_ = absl::StrCat(testing::TempDir(), "crash_notes.", getpid());
};

TEST_F(CrashNotesDeathTest, EachCrashLeavesTheNameOfWhatWasApplied) {
  EXPECT_THAT(ReadCrashNotes(path_), IsEmpty()) << "no such file yet";
  EXPECT_EXIT(Apply([](Applying&) { raise(SIGSEGV); }), KilledBySignal(SIGSEGV), "SIGSEGV");
  EXPECT_THAT(ReadCrashNotes(path_), ElementsAre(kName));
  EXPECT_EXIT(Apply([](Applying&) { std::abort(); }), KilledBySignal(SIGABRT), "SIGABRT");
  EXPECT_THAT(ReadCrashNotes(path_), ElementsAre(kName, kName));
}

TEST_F(CrashNotesDeathTest, WhatTheProcessDidNotDieOfIsNotNoted) {
  EXPECT_EXIT(Apply([](Applying&) { raise(SIGKILL); }), KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(Apply([](Applying& applying) {
                applying.End();
                raise(SIGSEGV);
              }),
              KilledBySignal(SIGSEGV), "SIGSEGV");
  EXPECT_EXIT(Apply([](Applying&) { std::thread([] { raise(SIGSEGV); }).join(); }), KilledBySignal(SIGSEGV), "SIGSEGV");
  EXPECT_THAT(ReadCrashNotes(path_), IsEmpty());
}

TEST_F(CrashNotesDeathTest, ANoteBeginsALineOfItsOwn) {
  std::ofstream(path_) << "1 2 3";
  EXPECT_EXIT(Apply([](Applying&) { std::abort(); }), KilledBySignal(SIGABRT), "SIGABRT");
  EXPECT_THAT(ReadCrashNotes(path_), ElementsAre(kName));
}

TEST_F(CrashNotesDeathTest, LinesThatAreNoNotesAreLeftOut) {
  std::ofstream(path_) << "1 2 3 4\n1 2 3\n1 2 3 4 5\n-1 2 3 4\n1 2 4294967296 4\n\n5 6 7 8\n9 9 9";
  EXPECT_THAT(ReadCrashNotes(path_),
              ElementsAre(PushName{1, LeaseId{2}, 3, SliceId{4}}, PushName{5, LeaseId{6}, 7, SliceId{8}}));
}

TEST_F(CrashNotesDeathTest, OfALongFileItsEndCounts) {
  std::ofstream file(path_);
  for (int i = 0; i < 100000; ++i) file << "1 2 3 4\n";
  file << "5 6 7 8\n" << std::flush;
  const std::vector<PushName> crashes = ReadCrashNotes(path_);
  EXPECT_LT(crashes.size(), 10000u);
  EXPECT_EQ(crashes.back(), (PushName{5, LeaseId{6}, 7, SliceId{8}}));
}

TEST_F(CrashNotesDeathTest, WhoCannotNoteGoesOn) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(ReadCrashNotes(path_), IsEmpty());
  EXPECT_EXIT(Apply([](Applying&) {}), ExitedWithCode(0), "crash notes");
  EXPECT_EXIT(Apply([](Applying&) { std::abort(); }), KilledBySignal(SIGABRT), "SIGABRT");
}

}  // namespace
}  // namespace downpour
