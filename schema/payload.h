// Ref-counted bytes: one tensor slice, one frame, one file block.
//
//   Payload p = Payload::Allocate(4 * n);           // 64-byte aligned, contents undefined
//   std::memcpy(p.mutable_data(), ..., p.size());
//   Payload head = p.Sub(0, 4096);                  // shares the bytes
//
// Order: a payload is immutable while shared; mutable_data() needs unique(), that is: no other Payload holds the block.
// Cost: copying is one atomic increment. Blocks of Allocate() are recycled through a process-wide pool, because
//   touching fresh pages costs more than an optimizer's whole pass over them.
// Threads: the count is atomic; a payload may be dropped on any thread (ZeroMQ frees frames on its I/O threads).
// Errors: none; where memory runs out the process's new-handler is called, as by operator new.
// Tests: tests/unit/schema/payload_test.cc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/types/span.h"

namespace downpour {

// Where memory comes from that other processes of this host may read (runtime/shm/arena.h).
class SharedBlocks {
 public:
  virtual ~SharedBlocks() = default;
  virtual bool in_use() const = 0;         // whether somebody reads
  virtual void* Get(size_t capacity) = 0;  // a power of two; null: there is none to be had
  virtual void Put(void* memory, size_t capacity) = 0;
};

class Payload {
 public:
  static constexpr size_t kAlignment = 64;

  Payload() = default;
  static Payload Allocate(size_t bytes);
  static Payload CopyOf(const void* data, size_t bytes);
  static Payload Zeros(size_t bytes);
  // For what will be sent. If SharedBlocks are in use it comes from them, so that peers of this host can read it where
  // it lies. Else as Allocate.
  static Payload AllocateToSend(size_t bytes);
  // Empty: there are no such blocks to be had. `blocks` outlives all that came from it.
  static Payload AllocateFrom(SharedBlocks& blocks, size_t bytes);
  // For the whole process, once; `blocks` outlives it.
  static void SendFrom(SharedBlocks* blocks);
  // Borrows foreign memory (a received frame); `release` runs once, when the last holder lets go, on
  // that one's thread. No alignment promised.
  static Payload Adopt(const void* data, size_t bytes, std::function<void()> release);

  Payload(const Payload& other) noexcept;
  Payload(Payload&& other) noexcept;
  Payload& operator=(Payload other) noexcept;
  ~Payload();

  // The bytes [offset, offset + bytes) of this payload, sharing its block. CHECKs the range.
  Payload Sub(size_t offset, size_t bytes) const;

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  absl::Span<const std::byte> bytes() const { return {data_, size_}; }

  // Whether this is the only holder, of memory that was not adopted.
  bool unique() const;
  std::byte* mutable_data();  // CHECKs unique()

  // Whether AllocateToSend would have it where it is.
  bool is_placed_to_send() const;

  // The bytes as numbers, of whose size size() must be a multiple. The address is only promised to be aligned for owned
  // memory.
  template <typename T>
  absl::Span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), size_ / sizeof(T)};
  }
  template <typename T>
  absl::Span<T> mutable_as() {
    return {reinterpret_cast<T*>(mutable_data()), size_ / sizeof(T)};
  }
  absl::Span<const float> floats() const { return as<float>(); }
  absl::Span<float> mutable_floats() { return mutable_as<float>(); }

 private:
  struct Block;
  Payload(Block* block, const std::byte* data, size_t size) : block_(block), data_(data), size_(size) {}

  Block* block_ = nullptr;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace downpour
