#include "worker/python/child_memory.h"

namespace downpour {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kPage = 4096;

constexpr size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

ChildMemory::ChildMemory(absl::Span<const VariableSpec> variables) {
  size_t end = 0;
  for (const VariableSpec& variable : variables) {
    offsets.push_back(end);
    end = RoundUp(end + static_cast<size_t>(variable.elements()) * sizeof(float), kAlignment);
  }
  region = RoundUp(end, kPage);
}

}  // namespace downpour
