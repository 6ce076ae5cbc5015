// A set of lease numbers kept as disjoint, non-adjacent half-open intervals: what a slice has finished, for ever.
//
// Cost: a few numbers, since leases are dense and finish nearly in order. Insert, Contains and FirstMissing are O(log
//   intervals); what takes another set is O(intervals) of both but for a logarithm.
// Tests: tests/unit/schema/interval_set_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace downpour {

class IntervalSet {
 public:
  struct Interval {
    uint64_t begin = 0;
    uint64_t end = 0;  // exclusive; begin < end
    bool operator==(const Interval&) const = default;
  };

  void Insert(uint64_t value) { InsertRange(value, value + 1); }
  void InsertRange(uint64_t begin, uint64_t end);
  bool Contains(uint64_t value) const;
  // Whether every member of `other` is a member.
  bool Covers(const IntervalSet& other) const;
  bool CoversRange(uint64_t begin, uint64_t end) const;
  // The members of both.
  IntervalSet Intersect(const IntervalSet& other) const;
  // The members that `other` lacks.
  IntervalSet Except(const IntervalSet& other) const;
  // The lowest number from `from` on that is no member.
  uint64_t FirstMissing(uint64_t from) const;

  uint64_t Count() const;
  size_t IntervalCount() const { return by_begin_.size(); }
  bool empty() const { return by_begin_.empty(); }
  std::vector<Interval> Intervals() const;  // ascending
  bool operator==(const IntervalSet&) const = default;

 private:
  std::map<uint64_t, uint64_t> by_begin_;  // begin -> end
};

}  // namespace downpour
