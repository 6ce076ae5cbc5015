// KeyIndex: from a key to the place of its row.
//
//   const uint64_t hash = index.HashOf(key);
//   index.Prefetch(hash);                           // some time before
//   const uint32_t place = index.Find(key, hash);   // kNoPlace where it is absent
//
// Shapes: lines of 64 bytes: 5 keys, their 5 places, how many there are, and how many keys passed the line when it was
//   full. A key that finds its line full goes on to the other one of the pair of 128 bytes, then to the next pair. A
//   look-up stops at a line that no key has passed, so that a key can be removed without moving another.
//   Lines lie in chunks of 256; up to 16 chunks are a part, which has a range of the hash to itself.
// Order: what is found depends on what was inserted alone. Where lines lie depends on the salt, which must be unknown
//   to whoever chooses keys: else they could all be given the same line.
// Cost: one line a look-up, 1.2 on the mean at a load of 0.76. 16 to 19 bytes a key; a bucket's first keys take 16 KiB.
//   Growth rebuilds one part at a time, of 17,408 keys at most: by a quarter, or into two.
// Tests: tests/unit/ps/table/key_index_test.cc.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ps/table/arena.h"
#include "ps/table/row_pages.h"
#include "runtime/prefetch.h"
#include "runtime/prng.h"

namespace downpour {

class KeyIndex {
 public:
  static constexpr uint32_t kFurther = kNoPlace - 1;  // which is no place either (row_pages.h)

  explicit KeyIndex(uint64_t salt);

  uint64_t HashOf(uint64_t key) const { return Mix(key ^ salt_); }
  void Prefetch(uint64_t hash) const {
    const Part& part = PartOf(hash);
    downpour::Prefetch(&part.At(part.LineOf(hash)));
  }
  // As Find, but where the key may lie behind its own line it fetches the next one, and answers kFurther.
  uint32_t FindAtHome(uint64_t key, uint64_t hash) const {
    const Part& part = PartOf(hash);
    const uint32_t home = part.LineOf(hash);
    const Line& at = part.At(home);
    if (const uint32_t match = at.Match(key); match != 0) return at.places[std::countr_zero(match)];
    if (at.passed == 0) return kNoPlace;
    downpour::Prefetch(&part.At(part.Next(home, home)));
    return kFurther;
  }
  uint32_t Find(uint64_t key, uint64_t hash) const {
    const Part& part = PartOf(hash);
    const uint32_t home = part.LineOf(hash);
    uint32_t line = home;
    for (uint32_t seen = 0; seen < part.lines; ++seen) {
      const Line& at = part.At(line);
      if (const uint32_t match = at.Match(key); match != 0) return at.places[std::countr_zero(match)];
      if (at.passed == 0) break;
      line = part.Next(line, home);
    }
    return kNoPlace;
  }

  void Insert(uint64_t key, uint64_t hash, uint32_t place);  // of a key that is not there
  void Remove(uint64_t key, uint64_t hash);                  // of one that is

  size_t bytes() const;

 private:
  static constexpr uint32_t kKeysInLine = 5;
  static constexpr uint32_t kLinesInChunk = 256;
  static constexpr uint32_t kMostChunks = 16;
  static constexpr uint32_t kMostDepth = 24;

  struct alignas(64) Line {
    uint64_t keys[kKeysInLine];
    uint32_t places[kKeysInLine];
    uint16_t count;
    uint16_t passed;  // keys of lines before this one that lie behind it; a part has fewer than 2^16

    // A bit for the slot that has the key. All are compared, without a branch.
    uint32_t Match(uint64_t key) const {
      uint32_t match = 0;
#pragma GCC unroll 5
      for (uint32_t i = 0; i < kKeysInLine; ++i) match |= static_cast<uint32_t>(keys[i] == key) << i;
      return match & ((uint32_t{1} << count) - 1);
    }
  };
  static_assert(sizeof(Line) == 64);

  struct Part {
    uint32_t lines = 1;
    uint32_t keys = 0;
    uint32_t chunk_count = 0;
    uint32_t depth = 0;  // leading bits of a hash that all of its keys have in common
    std::array<Line*, kMostChunks> chunks = {};

    uint32_t LineOf(uint64_t hash) const { return static_cast<uint32_t>((hash & 0xffffffff) * lines >> 32); }
    // The lines of a pair, then those of the next one; the home's parity first. The number of lines is even.
    uint32_t Next(uint32_t line, uint32_t home) const {
      if (((line ^ home) & 1) == 0) return line ^ 1;
      const uint32_t next = (line ^ 1) + 2;
      return next >= lines ? next - lines : next;
    }
    Line& At(uint32_t line) const { return chunks[line / kLinesInChunk][line % kLinesInChunk]; }
  };
  struct Entry {
    uint64_t key;
    uint32_t place;
  };

  const Part& PartOf(uint64_t hash) const { return parts_[directory_[(hash >> 1) >> (63 - depth_)]]; }
  Part& PartOf(uint64_t hash) { return const_cast<Part&>(std::as_const(*this).PartOf(hash)); }
  static void Put(Part& part, const Entry& entry, uint64_t hash);
  void Grow(uint64_t hash);
  void Split(uint32_t number, std::vector<Entry> entries);
  void Rebuild(Part& part, const std::vector<Entry>& entries);
  Line* TakeChunk();

  static Line empty_line_;  // of a part without chunks; nothing is ever written to it

  uint64_t salt_;
  uint32_t depth_ = 0;                     // leading bits of a hash that choose from the directory
  std::vector<uint32_t> directory_ = {0};  // numbers of parts
  std::vector<Part> parts_;
  Arenas arenas_;
  size_t taken_ = 0;  // chunks of the arenas
  std::vector<Line*> free_;
};

}  // namespace downpour
