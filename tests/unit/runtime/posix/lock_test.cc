#include "runtime/posix/lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <cerrno>
#include <string>

#include "runtime/posix/fd.h"

namespace downpour {
namespace {

UniqueFd OpenLock() {
  const std::string path = testing::TempDir() + "/posix_lock_test";
  return UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
}

TEST(PosixLockTest, WhoHoldsItForAMomentRefusesNobody) {
  UniqueFd passing = OpenLock();
  ASSERT_EQ(flock(passing.get(), LOCK_EX), 0);
  const UniqueFd kept = OpenLock();
  int waits = 0;
  const int error = KeepLock(kept.get(), [&] {
    if (++waits == 3) passing = UniqueFd();
  });
  EXPECT_EQ(error, 0);
  EXPECT_EQ(waits, 3);
  EXPECT_EQ(flock(OpenLock().get(), LOCK_EX | LOCK_NB), -1) << "it is held now";
}

TEST(PosixLockTest, WhoKeepsItRefusesTheNext) {
  const UniqueFd kept = OpenLock();
  ASSERT_EQ(KeepLock(kept.get()), 0);
  int waits = 0;
  EXPECT_EQ(KeepLock(OpenLock().get(), [&] { ++waits; }), EWOULDBLOCK);
  EXPECT_GT(waits, 0);
}

TEST(PosixLockTest, WhatIsNoFileIsToldAtOnce) {
  EXPECT_EQ(KeepLock(-1, [] { FAIL() << "nobody gives it back"; }), EBADF);
}

}  // namespace
}  // namespace downpour
