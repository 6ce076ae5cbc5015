#include "ps/table/admission_counts.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

const AgeRule kForever = {};

TEST(AdmissionCountsTest, CountsThePushesOfEachKey) {
  AdmissionCounts counts(64);
  EXPECT_EQ(counts.Raise(0, kForever, 1, 0), 1u);
  EXPECT_EQ(counts.Raise(7, kForever, 1, 0), 1u);
  EXPECT_EQ(counts.Raise(0, kForever, 2, 0), 2u);
  counts.Remove(0, 0);
  EXPECT_EQ(counts.Raise(0, kForever, 3, 0), 1u);
  EXPECT_EQ(counts.Raise(7, kForever, 9, 0), 2u);
}

TEST(AdmissionCountsTest, ACountExpiresAsARowDoes) {
  AdmissionCounts counts(64);
  counts.Raise(7, AgeRule{3, 0}, 1, 0);
  EXPECT_EQ(counts.Raise(7, AgeRule{3, 3}, 4, 0), 2u);
  EXPECT_EQ(counts.Raise(7, AgeRule{3, 7}, 8, 0), 1u);
}

TEST(AdmissionCountsTest, ANewKeyTakesTheCountOfTheOldest) {
  AdmissionCounts counts(4);  // one set
  for (uint32_t key = 1; key <= 4; ++key) counts.Raise(key, kForever, key, 0);
  counts.Raise(1, kForever, 5, 0);
  counts.Raise(9, kForever, 6, 0);  // in place of key 2
  EXPECT_EQ(counts.Raise(1, kForever, 7, 0), 3u);
  EXPECT_EQ(counts.Raise(3, kForever, 8, 0), 2u);
  EXPECT_EQ(counts.Raise(2, kForever, 9, 0), 1u);
  EXPECT_EQ(counts.bytes(), 4 * sizeof(AdmissionCounts::Entry));
}

TEST(AdmissionCountsTest, WhatIsPutStaysWhateverTheOrder) {
  const std::vector<AdmissionCounts::Entry> entries = {{1, 5, 0, 1}, {2, 5, 0, 2}, {3, 4, 0, 3},
                                                       {4, 9, 0, 1}, {5, 5, 0, 2}, {6, 1, 0, 7}};
  for (const bool backwards : {false, true}) {
    AdmissionCounts counts(4);
    for (size_t i = 0; i < entries.size(); ++i)
      EXPECT_TRUE(counts.Put(entries[backwards ? entries.size() - 1 - i : i]));
    EXPECT_FALSE(counts.Put(entries[3]));
    std::vector<uint64_t> keys;
    for (const AdmissionCounts::Entry& entry : counts.entries()) keys.push_back(entry.key);
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(keys, (std::vector<uint64_t>{1, 2, 4, 5}));
  }
}

TEST(AdmissionCountsTest, AMarkStaysWhenTheCountGoes) {
  AdmissionCounts counts(4);
  counts.Raise(1, kForever, 1, 2);
  counts.Remove(1, 3);
  EXPECT_EQ(counts.entries()[0].mark, 3u);
  EXPECT_EQ(counts.entries()[0].last, 0u);
}

}  // namespace
}  // namespace downpour
