// AliveCount: how many rows have not expired, whether the others were swept or not. So a bucket that is full to its
// limit is so on every copy of it.
//
//   alive.Born(now);  alive.Pushed(last, now);  alive.Consumed(now);
//
// Order: pushes are numbered from 1. A row is alive until evict_after pushes are consumed behind its last one.
// Cost: 4 bytes for each of evict_after pushes; one access for each row that is pushed.
// Tests: tests/unit/ps/table/table_bucket_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace downpour {

class AliveCount {
 public:
  explicit AliveCount(uint32_t evict_after) : by_last_(size_t{evict_after} + 1) {}

  uint64_t alive() const { return alive_; }
  size_t bytes() const { return by_last_.capacity() * sizeof(uint32_t); }
  void Born(uint32_t now) { ++alive_, ++by_last_[now % by_last_.size()]; }
  void Pushed(uint32_t last, uint32_t now) { --by_last_[last % by_last_.size()], ++by_last_[now % by_last_.size()]; }
  // `now` pushes are consumed: those of evict_after pushes ago expire, and their place is that of the next push.
  void Consumed(uint32_t now) { alive_ -= std::exchange(by_last_[(now + size_t{1}) % by_last_.size()], 0); }

 private:
  std::vector<uint32_t> by_last_;  // rows whose last push is so many, modulo its size
  uint64_t alive_ = 0;
};

}  // namespace downpour
