// This process's memory that its peers on this host read where it lies: the values of a ps, the gradients of a worker.
//
//   SharedArena arena;
//   Payload::SendFrom(&arena);                          // what AllocateToSend takes from then on
//   arena.AddReader();                                  // there is a peer now; before, nothing comes from here
//   if (auto place = arena.Find(payload)) ...tell the peer place->chunk, place->offset...
//
// Chunks of addresses, each a memfd of its own that peers map once. Blocks within are powers of two; memory is taken
// huge page by huge page as it is needed, and kept.
//
// Cost: Get and Put are a lock and a list; Find is a search among the chunks.
// Errors: without memory, or with kMostChunks of them, Get returns null, and the caller takes private memory.
// Threads: any.
// Tests: tests/unit/runtime/shm/arena_test.cc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/shm/memory.h"
#include "schema/payload.h"

namespace downpour {

class SharedArena : public SharedBlocks {
 public:
  static constexpr size_t kChunkBytes = size_t{256} << 20;
  static constexpr size_t kMostChunks = 64;  // that a peer maps: 16 GiB of addresses
  static constexpr size_t kLargestBlock = size_t{64} << 20;

  SharedArena() { chunks_.reserve(kMostChunks); }

  // The one from which this process sends. Never destroyed: payloads may be dropped while the process exits.
  static SharedArena& OfThisProcess();
  // Unless DOWNPOUR_SHARE_MEMORY=0, or another word for no, is in the environment.
  static bool IsWanted();

  // Where a peer finds something, once it has the chunk.
  struct Place {
    uint32_t chunk = 0;
    uint64_t offset = 0;
  };
  std::optional<Place> Find(const Payload& payload) const;
  // How many there are, and the descriptor of each.
  size_t chunks() const { return count_.load(std::memory_order_acquire); }
  int fd(size_t chunk) const { return chunks_[chunk].fd(); }

  void AddReader() { readers_.fetch_add(1); }
  void RemoveReader() { readers_.fetch_sub(1); }

  bool in_use() const override { return readers_.load(std::memory_order_relaxed) > 0; }
  void* Get(size_t capacity) override;
  void Put(void* memory, size_t capacity) override;

 private:
  bool Grow(size_t capacity, std::vector<void*>& free);

  std::atomic<size_t> readers_{0};
  std::mutex mutex_;
  std::vector<void*> free_[64];       // by the logarithm of their size
  size_t used_ = kChunkBytes;         // of the last chunk
  std::vector<SharedMemory> chunks_;  // never moved: readers of fd and Find take no lock
  std::atomic<size_t> count_{0};
};

}  // namespace downpour
