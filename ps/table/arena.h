// Arenas: memory for a bucket in blocks of 2 MiB, which become huge pages.
//
//   std::byte* block = arenas.Add(/*at_once=*/false);
//   arenas.Filled(block);
//
// Why: a random access to memory in pages of 4 KiB misses the TLB as well as the cache. Huge pages make look-ups 1.7
//   times as fast (docs/TABLES.md). But one that is hardly used takes 2 MiB all the same. So a block is made one once
//   it is full; until then it takes what was touched of it.
// Order: contents are undefined at first, and blocks do not move.
// Cost: Filled copies 2 MiB: 7 ms were measured on a busy machine. With `at_once`, where it is known that the block
//   will be filled, it is free.
// Errors: where memory runs out the process's new-handler is called. A kernel without huge pages works, slower.
#pragma once

#include <linux/mman.h>  // MADV_COLLAPSE, which glibc 2.36 does not have
#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace downpour {

class Arenas {
 public:
  static constexpr size_t kBytes = size_t{2} << 20;

  std::byte* Add(bool at_once) {
    auto* const block = static_cast<std::byte*>(::operator new(kBytes, std::align_val_t(kBytes)));
    blocks_.emplace_back(block);
    if (at_once) madvise(block, kBytes, MADV_HUGEPAGE);
    return block;
  }

  static void Filled(std::byte* block) {
#ifdef MADV_COLLAPSE
    if (madvise(block, kBytes, MADV_COLLAPSE) == 0) return;
#endif
    madvise(block, kBytes, MADV_HUGEPAGE);  // an older kernel does so when it finds the time
  }

  std::byte* operator[](size_t i) const { return blocks_[i].get(); }
  size_t size() const { return blocks_.size(); }

 private:
  struct Free {
    void operator()(std::byte* block) const { ::operator delete(block, std::align_val_t(kBytes)); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> blocks_;
};

}  // namespace downpour
