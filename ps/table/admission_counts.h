// AdmissionCounts: how often keys without a row were pushed. Bounded: a new key takes the count of one that was not
// pushed for longest.
//
//   const uint32_t count = counts.Raise(key, AgeRule{evict_after, clock}, now, mark);
//   counts.Remove(key, mark);                          // it has a row now
//
// Shapes: sets of 4 entries. A key is counted in the set that its hash names, and takes the entry there with the
//   smallest (last push, key). So where there are as many keys as counts some are forgotten, and born later.
// Order: the same pushes leave the same counts on every machine, and records bring them to another number of buckets.
// Cost: one or two cache lines a key.
// Tests: tests/unit/ps/table/admission_counts_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace downpour {

// Whether what was last pushed by push `last` of its bucket has expired, when `clock` pushes are consumed.
struct AgeRule {
  uint32_t evict_after = 0;  // 0: nothing expires
  uint64_t clock = 0;
  bool Expired(uint32_t last) const { return evict_after != 0 && clock >= uint64_t{last} + evict_after; }
};

class AdmissionCounts {
 public:
  struct Entry {
    uint64_t key = 0;
    uint32_t last = 0;  // which push to the bucket; 0: the entry is empty
    uint32_t mark = 0;  // as of a Place
    uint32_t count = 0;
  };

  explicit AdmissionCounts(size_t counts) : entries_((counts + kInSet - 1) / kInSet * kInSet) {}

  // One push more of the key, by push `now`; returns how many there were. They count as long as they have not expired.
  uint32_t Raise(uint64_t key, const AgeRule& age, uint32_t now, uint32_t mark);
  void Remove(uint64_t key, uint32_t mark);

  // Of a record. False if there is one of that key.
  bool Put(const Entry& entry);
  void Shift(uint32_t pushes);  // each was so many pushes later

  const std::vector<Entry>& entries() const { return entries_; }
  size_t bytes() const { return entries_.capacity() * sizeof(Entry); }

 private:
  static constexpr size_t kInSet = 4;
  Entry* SetOf(uint64_t key);
  Entry* Find(uint64_t key);
  Entry& Oldest(uint64_t key);

  std::vector<Entry> entries_;
};

}  // namespace downpour
