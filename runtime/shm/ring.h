// Records from one process to another of this host, through memory that both may write: one writer, one reader.
//
//   if (writer.Begin(bytes)) { writer.Put(&head, sizeof(head)); ...; bool wake = writer.Publish(); }
//   switch (reader.Next(&record)) ...
//
// The peer may write anything anywhere at any time. So each side keeps its own count privately and only ever tells it;
// what it reads of the other's is checked against that, and a record is copied before it is looked at.
//
// Order: records come whole and in order, or the reader finds the ring broken, for good.
// Cost: two copies of a record; frames beyond kInlineBytes therefore travel by reference (link.h).
// Threads: one on each side.
// Tests: tests/unit/runtime/shm/ring_test.cc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace downpour {

// What both sides see of a ring, besides its bytes. Zeros: empty. Each word has one writer, but for `waits`.
struct RingWords {
  alignas(64) std::atomic<uint64_t> written;  // bytes so far, by the writer
  alignas(64) std::atomic<uint64_t> read;     // bytes so far, by the reader
  std::atomic<uint32_t> waits;                // the reader waits to be woken; whoever wakes it takes this back
};

class RingWriter {
 public:
  // `bytes`, of a power of two, follow no rule where they lie.
  RingWriter(RingWords* words, std::byte* begin, size_t bytes) : words_(words), begin_(begin), bytes_(bytes) {}

  // Whether a record of so many bytes fits now, which are to be Put then.
  bool Begin(size_t bytes);
  void Put(const void* data, size_t bytes);
  // Shows the record to the reader. Whether it waits and must be woken.
  bool Publish();

 private:
  RingWords* words_;
  std::byte* begin_;
  size_t bytes_;
  uint64_t written_ = 0;
  uint64_t at_ = 0;  // within the record that was begun
};

class RingReader {
 public:
  RingReader(RingWords* words, const std::byte* begin, size_t bytes) : words_(words), begin_(begin), bytes_(bytes) {}

  enum class Found { kNothing, kRecord, kBroken };
  Found Next(std::string* record);
  // Asks to be woken. False: there is something already, and no wish is left.
  bool AskToBeWoken();
  // False: the writer took it already, and wakes.
  bool TakeBackWish() { return words_->waits.exchange(0, std::memory_order_relaxed) != 0; }

 private:
  void CopyOut(uint64_t from, void* to, size_t bytes) const;

  RingWords* words_;
  const std::byte* begin_;
  size_t bytes_;
  uint64_t read_ = 0;
  bool broken_ = false;
};

}  // namespace downpour
