#include "runtime/shm/arena.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"

namespace downpour {

SharedArena& SharedArena::OfThisProcess() {
  static SharedArena& arena = *[] {
    auto* const made = new SharedArena;
    Payload::SendFrom(made);
    return made;
  }();
  return arena;
}

bool SharedArena::IsWanted() {
  const char* const wish = std::getenv("DOWNPOUR_SHARE_MEMORY");
  bool is_wanted = true;  // as absl's flags take a word: 0, false, no, n, f
  return wish == nullptr || !absl::SimpleAtob(wish, &is_wanted) || is_wanted;
}

std::optional<SharedArena::Place> SharedArena::Find(const Payload& payload) const {
  const size_t count = chunks();
  for (size_t i = 0; i < count; ++i) {
    const std::byte* const begin = chunks_[i].data();
    if (payload.data() >= begin && payload.data() < begin + kChunkBytes) {
      return Place{static_cast<uint32_t>(i), static_cast<uint64_t>(payload.data() - begin)};
    }
  }
  return std::nullopt;
}

void* SharedArena::Get(size_t capacity) {
  if (capacity > kLargestBlock) return nullptr;
  const std::lock_guard lock(mutex_);
  std::vector<void*>& free = free_[std::countr_zero(capacity)];
  if (free.empty() && !Grow(capacity, free)) return nullptr;
  void* const memory = free.back();
  free.pop_back();
  return memory;
}

void SharedArena::Put(void* memory, size_t capacity) {
  const std::lock_guard lock(mutex_);
  free_[std::countr_zero(capacity)].push_back(memory);
}

// A whole number of huge pages, cut into blocks of that size.
bool SharedArena::Grow(size_t capacity, std::vector<void*>& free) {
  const size_t bytes = std::max(capacity, SharedMemory::kHugePage);
  const size_t count = count_.load(std::memory_order_relaxed);
  if (used_ + bytes > kChunkBytes) {
    if (count == kMostChunks) return false;
    absl::StatusOr<SharedMemory> chunk = SharedMemory::Make(kChunkBytes, SharedMemory::Others::kRead);
    if (!chunk.ok()) return false;
    chunks_.push_back(*std::move(chunk));
    used_ = 0;
    count_.store(count + 1, std::memory_order_release);
  }
  const SharedMemory& chunk = chunks_.back();
  if (!chunk.Reserve(used_, bytes).ok()) return false;
  for (size_t at = bytes; at > 0; at -= capacity) free.push_back(chunk.data() + used_ + at - capacity);
  used_ += bytes;
  return true;
}

}  // namespace downpour
