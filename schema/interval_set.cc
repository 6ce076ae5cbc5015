#include "schema/interval_set.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace downpour {

void IntervalSet::InsertRange(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  auto next = by_begin_.upper_bound(begin);
  if (next != by_begin_.begin()) {
    auto before = std::prev(next);
    if (before->second >= begin) {  // overlaps or touches
      begin = before->first;
      end = std::max(end, before->second);
      next = by_begin_.erase(before);
    }
  }
  while (next != by_begin_.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = by_begin_.erase(next);
  }
  by_begin_.emplace(begin, end);
}

bool IntervalSet::CoversRange(uint64_t begin, uint64_t end) const {
  if (begin >= end) return true;
  auto next = by_begin_.upper_bound(begin);
  return next != by_begin_.begin() && std::prev(next)->second >= end;
}

bool IntervalSet::Contains(uint64_t value) const {
  const auto next = by_begin_.upper_bound(value);
  return next != by_begin_.begin() && std::prev(next)->second > value;
}

bool IntervalSet::Covers(const IntervalSet& other) const {
  return std::all_of(other.by_begin_.begin(), other.by_begin_.end(),
                     [this](const auto& interval) { return CoversRange(interval.first, interval.second); });
}

IntervalSet IntervalSet::Intersect(const IntervalSet& other) const {
  IntervalSet both;
  auto a = by_begin_.begin();
  auto b = other.by_begin_.begin();
  while (a != by_begin_.end() && b != other.by_begin_.end()) {
    both.InsertRange(std::max(a->first, b->first), std::min(a->second, b->second));
    (a->second < b->second) ? void(++a) : void(++b);
  }
  return both;
}

IntervalSet IntervalSet::Except(const IntervalSet& other) const {
  IntervalSet gaps;  // of `other`
  uint64_t begin = 0;
  for (const auto& [taken, end] : other.by_begin_) {
    gaps.InsertRange(begin, taken);
    begin = end;
  }
  gaps.InsertRange(begin, std::numeric_limits<uint64_t>::max());
  return Intersect(gaps);
}

uint64_t IntervalSet::FirstMissing(uint64_t from) const {
  const auto next = by_begin_.upper_bound(from);
  return next == by_begin_.begin() ? from : std::max(from, std::prev(next)->second);
}

uint64_t IntervalSet::Count() const {
  uint64_t count = 0;
  for (const auto& [begin, end] : by_begin_) count += end - begin;
  return count;
}

std::vector<IntervalSet::Interval> IntervalSet::Intervals() const {
  std::vector<Interval> intervals;
  for (const auto& [begin, end] : by_begin_) intervals.push_back({begin, end});
  return intervals;
}

}  // namespace downpour
