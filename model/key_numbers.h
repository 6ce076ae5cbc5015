// KeyNumbers: 64-bit keys, numbered in the order in which they come.
//
//   KeyNumbers numbers;
//   uint32_t row = numbers.NumberOf(key);   // 0, 1, 2, ...; the same for the same key
//   numbers.Clear();                        // begins again
//
// Cost: open addressing, at most half full: one cache miss or two. Memory is kept from one use to the next, and a Clear
//   costs what the use before it needed.
// Tests: tests/unit/model/embedding_rows_test.cc.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/prng.h"

namespace downpour {

class KeyNumbers {
 public:
  void Clear() {
    slots_.assign(std::bit_ceil(std::max(kFewest, 2 * keys_.size())), 0);
    keys_.clear();
  }

  uint32_t NumberOf(uint64_t key) {
    if (2 * keys_.size() >= slots_.size()) Grow();
    uint32_t& slot = SlotOf(key);
    if (slot == 0) {
      keys_.push_back(key);
      slot = static_cast<uint32_t>(keys_.size());
    }
    return slot - 1;
  }

  const std::vector<uint64_t>& keys() const { return keys_; }

 private:
  static constexpr size_t kFewest = 16;

  // The key's, or the free one where it would go.
  uint32_t& SlotOf(uint64_t key) {
    size_t at = Mix(key) & (slots_.size() - 1);
    while (slots_[at] != 0 && keys_[slots_[at] - 1] != key) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }

  void Grow() {
    slots_.assign(std::max(kFewest, 2 * slots_.size()), 0);
    for (size_t number = 0; number < keys_.size(); ++number) {
      SlotOf(keys_[number]) = static_cast<uint32_t>(number + 1);
    }
  }

  std::vector<uint32_t> slots_;  // a number + 1; 0: free
  std::vector<uint64_t> keys_;   // by number
};

}  // namespace downpour
