// How often each kind of fault was dealt, by its name.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace downpour {

using FaultCounts = std::map<std::string, uint64_t>;

inline void Add(const FaultCounts& more, FaultCounts& to) {
  for (const auto& [kind, count] : more) to[kind] += count;
}

inline uint64_t Total(const FaultCounts& counts) {
  uint64_t total = 0;
  for (const auto& [kind, count] : counts) total += count;
  return total;
}

}  // namespace downpour
