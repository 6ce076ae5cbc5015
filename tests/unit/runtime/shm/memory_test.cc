#include "runtime/shm/memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace downpour {
namespace {

using testing::HasSubstr;
constexpr size_t kBytes = size_t{4} << 20;

UniqueFd CopyOf(const SharedMemory& memory) { return UniqueFd(fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0)); }

TEST(SharedMemoryTest, WhatItsMakerWritesOthersRead) {
  SharedMemory ours = SharedMemory::Make(kBytes, SharedMemory::Others::kRead).value();
  ASSERT_TRUE(ours.Reserve(0, kBytes).ok());
  const SharedMemory theirs = SharedMemory::Map(CopyOf(ours), kBytes, SharedMemory::Others::kRead).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(theirs.data()) % SharedMemory::kHugePage, 0u);
  ours.data()[kBytes - 1] = std::byte{7};
  EXPECT_EQ(theirs.data()[kBytes - 1], std::byte{7});
}

TEST(SharedMemoryTest, OthersCanNeitherWriteNorCutWhatTheyMayRead) {
  const SharedMemory ours = SharedMemory::Make(kBytes, SharedMemory::Others::kRead).value();
  const UniqueFd theirs = CopyOf(ours);
  EXPECT_EQ(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, theirs.get(), 0), MAP_FAILED);
  EXPECT_EQ(ftruncate(theirs.get(), 0), -1);
  EXPECT_EQ(ftruncate(theirs.get(), kBytes * 2), -1);
  EXPECT_EQ(pwrite(theirs.get(), "x", 1, 0), -1);
  EXPECT_EQ(fallocate(theirs.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
  EXPECT_EQ(fcntl(theirs.get(), F_ADD_SEALS, F_SEAL_WRITE), -1) << "it would break its maker";
}

TEST(SharedMemoryTest, WhatBothWriteCannotBeCutEither) {
  const SharedMemory ours = SharedMemory::Make(kBytes, SharedMemory::Others::kWrite).value();
  const SharedMemory theirs = SharedMemory::Map(CopyOf(ours), kBytes, SharedMemory::Others::kWrite).value();
  theirs.data()[5] = std::byte{9};
  EXPECT_EQ(ours.data()[5], std::byte{9});
  EXPECT_EQ(ftruncate(ours.fd(), 0), -1);
}

TEST(SharedMemoryTest, WhatMayBeCutOrIsNoMemoryIsRefused) {
  UniqueFd unsealed(memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), kBytes), 0);
  UniqueFd grows(memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(grows.get(), kBytes), 0);
  ASSERT_EQ(fcntl(grows.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  UniqueFd small(memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(small.get(), kBytes - 4096), 0);
  ASSERT_EQ(fcntl(small.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK), 0);
  UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  UniqueFd others[] = {std::move(unsealed), std::move(grows), std::move(small), std::move(file), UniqueFd()};
  for (UniqueFd& fd : others) {
    const auto mapped = SharedMemory::Map(std::move(fd), kBytes, SharedMemory::Others::kRead);
    EXPECT_THAT(mapped.status().message(), HasSubstr("whose size may change"));
  }
}

}  // namespace
}  // namespace downpour
