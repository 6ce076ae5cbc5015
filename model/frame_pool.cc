#include "model/frame_pool.h"

#include <utility>

namespace downpour {

absl::StatusOr<FramePool::Frame> FramePool::Get(Backend& backend, size_t bytes) {
  std::shared_ptr<void> memory;
  {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<void>>& free = free_[bytes];
    if (!free.empty()) {
      memory = std::move(free.back());
      free.pop_back();
    }
  }
  if (memory == nullptr) {
    auto made = backend.AllocateHost(bytes);
    if (!made.ok()) return made.status();
    memory = *std::move(made);
  }
  void* const data = memory.get();
  Payload payload = Payload::Adopt(data, bytes, [pool = shared_from_this(), memory = std::move(memory), bytes] {
    std::lock_guard lock(pool->mutex_);
    pool->free_[bytes].push_back(memory);
  });
  return Frame{std::move(payload), data};
}

}  // namespace downpour
