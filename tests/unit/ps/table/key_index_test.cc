#include "ps/table/key_index.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "runtime/prng.h"

namespace downpour {
namespace {

uint32_t Find(const KeyIndex& index, uint64_t key) { return index.Find(key, index.HashOf(key)); }

TEST(KeyIndexTest, AnEmptyOneFindsNothing) {
  const KeyIndex index(1);
  EXPECT_EQ(Find(index, 0), kNoPlace);
  EXPECT_LT(index.bytes(), 4096u);
}

TEST(KeyIndexTest, FindsWhatWasInsertedThroughGrowthAndSplits) {
  KeyIndex index(5);
  constexpr uint32_t kKeys = 300'000;
  for (uint32_t i = 0; i < kKeys; ++i) index.Insert(Mix(i), index.HashOf(Mix(i)), i);
  for (uint32_t i = 0; i < kKeys; ++i) ASSERT_EQ(Find(index, Mix(i)), i);
  for (uint32_t i = kKeys; i < 2 * kKeys; ++i) ASSERT_EQ(Find(index, Mix(i)), kNoPlace);
  EXPECT_LT(index.bytes(), 20u * kKeys);
}

TEST(KeyIndexTest, IsAMapUnderInsertionsAndRemovals) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Prng prng(seed);
    KeyIndex index(seed);
    std::map<uint64_t, uint32_t> expected;
    for (uint32_t i = 0; i < 60'000; ++i) {
      const uint64_t key = prng.Below(2000 + i / 4);
      const auto found = expected.find(key);
      ASSERT_EQ(Find(index, key), found == expected.end() ? kNoPlace : found->second);
      if (found == expected.end()) {
        index.Insert(key, index.HashOf(key), i);
        expected.emplace(key, i);
      } else if (prng.Chance(0.5)) {
        index.Remove(key, index.HashOf(key));
        expected.erase(found);
      }
    }
    for (const auto& [key, place] : expected) ASSERT_EQ(Find(index, key), place);
  }
}

}  // namespace
}  // namespace downpour
