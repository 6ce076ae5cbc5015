#include "schema/payload.h"

#include <glog/logging.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

namespace downpour {
namespace {

// Free blocks by power-of-two size. Small sizes are left to malloc, which serves them well. The large ones are cut from
// regions of whole huge pages: with small pages an optimizer's pass over them takes 1.7 times as long. Of
// those a bounded amount is kept, so that a burst does not hold memory for ever; beyond, a region that is
// free as a whole keeps only its addresses. Either way costs the same, however many blocks there are.
class BlockPool {
 public:
  static constexpr size_t kSmallest = size_t{64} << 10;
  static constexpr size_t kKeptBytes = size_t{256} << 20;
  static constexpr size_t kHugePage = size_t{2} << 20;

  void* Get(size_t capacity) {
    if (capacity < kSmallest) return OrRunOut(std::aligned_alloc(Payload::kAlignment, capacity));
    std::lock_guard lock(mutex_);
    SizeClass& blocks = classes_[std::countr_zero(capacity)];
    if (!blocks.free.empty()) {
      Region& region = *blocks.free.back();
      void* const memory = Pop(region.kept);
      if (region.kept.empty()) blocks.free.pop_back();
      kept_ -= capacity;
      return memory;
    }
    if (blocks.given_back.empty()) AddRegion(capacity, blocks.given_back);
    return Pop(blocks.given_back);
  }

  void Put(void* memory, size_t capacity) {
    if (capacity < kSmallest) return std::free(memory);
    std::lock_guard lock(mutex_);
    SizeClass& blocks = classes_[std::countr_zero(capacity)];
    char* const begin = static_cast<char*>(memory) - reinterpret_cast<uintptr_t>(memory) % kHugePage;
    Region& region = blocks.regions[begin];
    if (region.kept.empty()) {
      region.place = blocks.free.size();
      blocks.free.push_back(&region);
    }
    region.kept.push_back(memory);
    kept_ += capacity;
    const size_t bytes = std::max(capacity, kHugePage);
    if (kept_ > kKeptBytes && region.kept.size() * capacity == bytes) GiveBack(begin, bytes, region, blocks);
  }

 private:
  // What was mapped at once.
  struct Region {
    std::vector<void*> kept;  // its free blocks that have memory behind them
    size_t place = 0;         // in SizeClass::free, where it keeps any
  };
  struct SizeClass {
    std::unordered_map<const void*, Region> regions;  // by where they begin
    std::vector<Region*> free;                        // those that keep blocks
    std::vector<void*> given_back;                    // addresses without memory behind them
  };

  // As operator new does where there is none.
  static void* OrRunOut(void* memory) {
    if (memory != nullptr && memory != MAP_FAILED) return memory;
    if (const std::new_handler ran_out = std::get_new_handler(); ran_out != nullptr) ran_out();
    throw std::bad_alloc();
  }

  static void* Pop(std::vector<void*>& blocks) {
    void* memory = blocks.back();
    blocks.pop_back();
    return memory;
  }

  static void AddRegion(size_t capacity, std::vector<void*>& blocks) {
    const size_t bytes = std::max(capacity, kHugePage);
    // More addresses than needed, of which the aligned ones are kept.
    const size_t mapped = bytes + kHugePage;
    char* begin =
        static_cast<char*>(OrRunOut(mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
    char* region = begin + (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
    if (region > begin) munmap(begin, static_cast<size_t>(region - begin));
    char* end = region + bytes;
    if (begin + mapped > end) munmap(end, static_cast<size_t>(begin + mapped - end));
    madvise(region, bytes, MADV_HUGEPAGE);  // a wish: without it all works, slower
    for (size_t at = bytes; at > 0; at -= capacity) blocks.push_back(region + at - capacity);
  }

  // A region of which nothing is in use.
  void GiveBack(char* begin, size_t bytes, Region& region, SizeClass& blocks) {
    blocks.given_back.insert(blocks.given_back.end(), region.kept.begin(), region.kept.end());
    region.kept.clear();
    blocks.free.back()->place = region.place;
    blocks.free[region.place] = blocks.free.back();
    blocks.free.pop_back();
    kept_ -= bytes;
    madvise(begin, bytes, MADV_DONTNEED);
  }

  std::mutex mutex_;
  SizeClass classes_[64];  // by the logarithm of their size
  size_t kept_ = 0;        // bytes of all kept blocks
};

// Never destroyed: I/O threads may drop payloads while the process exits.
BlockPool& Pool() {
  static BlockPool& pool = *new BlockPool;
  return pool;
}

std::atomic<SharedBlocks*> shared_blocks = nullptr;

}  // namespace

struct Payload::Block {
  std::atomic<uint32_t> holders{1};
  SharedBlocks* blocks = nullptr;  // of which the memory is; null: of the pool
  void* memory = nullptr;          // null for adopted memory
  size_t capacity = 0;
  std::function<void()> release;
};

Payload Payload::Allocate(size_t bytes) {
  if (bytes == 0) return Payload();
  auto* block = new Block;
  block->capacity = std::bit_ceil(std::max(bytes, kAlignment));
  block->memory = Pool().Get(block->capacity);
  return Payload(block, static_cast<const std::byte*>(block->memory), bytes);
}

void Payload::SendFrom(SharedBlocks* blocks) { shared_blocks = blocks; }

Payload Payload::AllocateToSend(size_t bytes) {
  SharedBlocks* const blocks = shared_blocks;
  if (blocks == nullptr || !blocks->in_use()) return Allocate(bytes);
  Payload payload = AllocateFrom(*blocks, bytes);
  return payload.empty() ? Allocate(bytes) : payload;
}

Payload Payload::AllocateFrom(SharedBlocks& blocks, size_t bytes) {
  if (bytes == 0) return Payload();
  const size_t capacity = std::bit_ceil(std::max(bytes, kAlignment));
  void* const memory = blocks.Get(capacity);
  if (memory == nullptr) return Payload();
  auto* block = new Block;
  block->blocks = &blocks;
  block->memory = memory;
  block->capacity = capacity;
  return Payload(block, static_cast<const std::byte*>(memory), bytes);
}

Payload Payload::CopyOf(const void* data, size_t bytes) {
  Payload copy = Allocate(bytes);
  if (bytes > 0) std::memcpy(copy.mutable_data(), data, bytes);
  return copy;
}

Payload Payload::Zeros(size_t bytes) {
  Payload zeros = Allocate(bytes);
  if (bytes > 0) std::memset(zeros.mutable_data(), 0, bytes);
  return zeros;
}

Payload Payload::Adopt(const void* data, size_t bytes, std::function<void()> release) {
  auto* block = new Block;
  block->release = std::move(release);
  return Payload(block, static_cast<const std::byte*>(data), bytes);
}

Payload::Payload(const Payload& other) noexcept : block_(other.block_), data_(other.data_), size_(other.size_) {
  if (block_ != nullptr) block_->holders.fetch_add(1, std::memory_order_relaxed);
}

Payload::Payload(Payload&& other) noexcept
    : block_(std::exchange(other.block_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Payload& Payload::operator=(Payload other) noexcept {
  std::swap(block_, other.block_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Payload::~Payload() {
  if (block_ == nullptr || block_->holders.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (block_->blocks != nullptr) {
    block_->blocks->Put(block_->memory, block_->capacity);
  } else if (block_->memory != nullptr) {
    Pool().Put(block_->memory, block_->capacity);
  }
  if (block_->release) block_->release();
  delete block_;
}

Payload Payload::Sub(size_t offset, size_t bytes) const {
  CHECK(offset <= size_ && bytes <= size_ - offset) << offset << "+" << bytes << " of " << size_;
  Payload part = *this;
  part.data_ += offset;
  part.size_ = bytes;
  return part;
}

bool Payload::unique() const {
  return block_ != nullptr && block_->memory != nullptr && block_->holders.load(std::memory_order_acquire) == 1;
}

bool Payload::is_placed_to_send() const {
  const SharedBlocks* const blocks = shared_blocks;
  return block_ == nullptr || block_->blocks != nullptr || blocks == nullptr || !blocks->in_use();
}

std::byte* Payload::mutable_data() {
  if (size_ == 0) return nullptr;
  CHECK(unique()) << "a shared payload is immutable";
  return const_cast<std::byte*>(data_);
}

}  // namespace downpour
