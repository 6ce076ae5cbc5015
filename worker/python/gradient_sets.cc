#include "worker/python/gradient_sets.h"

#include <glog/logging.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace downpour {

struct GradientSets::State {
  std::shared_ptr<std::byte> memory;
  size_t bytes = 0;  // of a set
  std::mutex mutex;
  std::vector<bool> lent;
};

GradientSets::GradientSets(std::shared_ptr<std::byte> memory, size_t bytes, size_t count)
    : state_(std::make_shared<State>()) {
  CHECK_GT(count, 0u);
  state_->memory = std::move(memory);
  state_->bytes = bytes;
  state_->lent.resize(count);
}

size_t GradientSets::Free() const {
  std::lock_guard lock(state_->mutex);
  return static_cast<size_t>(std::find(state_->lent.begin(), state_->lent.end(), false) - state_->lent.begin());
}

std::byte* GradientSets::at(size_t set) const { return state_->memory.get() + set * state_->bytes; }

Payload GradientSets::Lend(size_t set) {
  {
    std::lock_guard lock(state_->mutex);
    if (std::count(state_->lent.begin(), state_->lent.end(), false) < 2) return Payload();
    state_->lent[set] = true;
  }
  return Payload::Adopt(at(set), state_->bytes, [state = state_, set] {
    std::lock_guard lock(state->mutex);
    state->lent[set] = false;
  });
}

}  // namespace downpour
