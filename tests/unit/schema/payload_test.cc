#include "schema/payload.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

namespace downpour {
namespace {

TEST(PayloadTest, OwnedMemoryIsAlignedAndWritableWhileUnique) {
  Payload p = Payload::Allocate(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p.data()) % Payload::kAlignment, 0u);
  EXPECT_TRUE(p.unique());
  Payload q = p;
  EXPECT_FALSE(p.unique());
  EXPECT_EQ(p.data(), q.data());
  q = Payload();
  EXPECT_TRUE(p.unique());
}

TEST(PayloadTest, APartKeepsTheWholeShared) {
  Payload p = Payload::CopyOf("abcdef", 6);
  Payload part = p.Sub(2, 3);
  EXPECT_EQ(std::memcmp(part.data(), "cde", 3), 0);
  EXPECT_FALSE(p.unique());
  p = Payload();
  EXPECT_EQ(std::memcmp(part.data(), "cde", 3), 0);
  EXPECT_TRUE(part.unique());
}

TEST(PayloadTest, AdoptedMemoryIsReleasedOnceByItsLastHolderAndNeverWritable) {
  int released = 0;
  char bytes[] = "xyz";
  {
    Payload p = Payload::Adopt(bytes, 3, [&] { ++released; });
    Payload q = p.Sub(1, 1);
    EXPECT_FALSE(q.unique());
    p = Payload();
    EXPECT_EQ(released, 0);
    Payload moved = std::move(q);
    EXPECT_FALSE(moved.unique());
  }
  EXPECT_EQ(released, 1);
}

TEST(PayloadTest, LargeBlocksAreRecycled) {
  const std::byte* first;
  {
    Payload p = Payload::Allocate(size_t{1} << 20);
    first = p.data();
  }
  EXPECT_EQ(Payload::Allocate((size_t{1} << 20) - 5).data(), first);
}

size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t all_pages = 0, resident_pages = 0;
  statm >> all_pages >> resident_pages;
  return resident_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST(PayloadTest, MemoryOfABurstIsGivenBackAndStaysUsable) {
  constexpr size_t kBytes = size_t{1} << 20, kBlocks = 300;
  const auto burst = [] {
    std::vector<Payload> payloads;
    for (size_t i = 0; i < kBlocks; ++i) payloads.push_back(Payload::Zeros(kBytes));
    payloads.back().mutable_data()[kBytes - 1] = std::byte{7};
    EXPECT_EQ(payloads.back().data()[kBytes - 1], std::byte{7});
  };
  const size_t before = ResidentBytes();
  burst();
  const size_t kept = ResidentBytes();
  EXPECT_LT(kept, before + kBlocks * kBytes * 9 / 10);
  burst();
  EXPECT_LT(ResidentBytes(), kept + kept / 8);
}

TEST(PayloadDeathTest, ASharedPayloadIsImmutableAndPartsStayInside) {
  Payload p = Payload::Zeros(8);
  Payload q = p;
  EXPECT_DEATH(p.mutable_data(), "immutable");
  EXPECT_DEATH(p.Sub(5, 4), "5\\+4 of 8");
}

}  // namespace
}  // namespace downpour
