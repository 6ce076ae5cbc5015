// Prefetch: asks for a cache line that is soon to be used.
//
// Why not __builtin_prefetch alone: GCC 12.2 drops calls of functions that do nothing else, as if they were pure.
//   An empty `asm` is a side effect that costs nothing.
#pragma once

namespace downpour {

inline void Prefetch(const void* line) {
  __builtin_prefetch(line);
  asm volatile("");
}

}  // namespace downpour
