// The hashes that outlive a process: checksums of data, and the categories of hashed columns.
//
// Both are XXH3 with 64 bits, whose values are the same for ever and everywhere (xxhash 0.8). Source:
//   https://github.com/Cyan4973/xxHash. In Python: xxhash.xxh3_64_intdigest(word, seed).
// Tests: tests/unit/data/columns_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace downpour {

// Of one word with seed 0. Of several, a cross: each with the hash of those before it as its seed, so that "ab", "c"
// is not "a", "bc".
uint64_t HashWord(std::string_view word, uint64_t seed = 0);

// Of bytes that come in parts: the hash of all of them in a row, as HashWord has it.
class RunningHash {
 public:
  RunningHash();
  ~RunningHash();
  void Begin();
  void Add(std::string_view bytes);
  uint64_t Value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace downpour
