// What a backend recorded of a model's steps, to be repeated.
//
//   recordings.Repeat({{after, until}, batches.at_hand(), batches.size(), examples, accumulate}, give);
//
// Order: goes before the memory that the operations use.
// Cost: for steps alone that are bound by their launches: bench_gpu measures how large a product may be. Others may
//   lose, since a recording's first layer waits for the parameters of all its layers. Of batches that come in many
//   sizes only the first ones are recorded.
// Errors: those of `give`.
// Threads: as the backend.
// Tests: tests/unit/model/step_recordings_test.cc; tests/parity/model_parity_test.cc: the same bits.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "tensor/backend.h"

namespace downpour {

// What is computed in one go: from behind the parameters' gradients of node `after`, or from the step's begin where
// that is the count of nodes, until those of node `until`.
struct GraphSegment {
  size_t after = 0;
  size_t until = 0;
  auto operator<=>(const GraphSegment&) const = default;
};

class StepRecordings {
 public:
  static constexpr double kLaunchBound = 5e9;  // operations of a product: from there on graphs bring less than a tenth
  static constexpr size_t kMost = 64;          // segments times places of batches times sizes

  // All that the addresses and numbers of a segment's operations depend on.
  struct Key {
    GraphSegment segment;
    size_t batch_at = 0;
    int64_t batch = 0;
    int64_t examples = 0;
    bool accumulate = false;
    auto operator<=>(const Key&) const = default;
  };

  // The backend outlives this.
  explicit StepRecordings(Backend& backend) : backend_(backend) {}
  // Of the largest batch.
  void AddProduct(int64_t m, int64_t n, int64_t k) {
    largest_ = std::max(largest_, 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
  }

  absl::Status Repeat(const Key& key, const std::function<absl::Status()>& give) {
    const bool pays = !backend_.memory_is_host() && largest_ <= kLaunchBound;
    if (!pays || (recordings_.size() >= kMost && !recordings_.contains(key))) return give();
    return backend_.Repeat(give, &recordings_[key]);
  }

 private:
  Backend& backend_;
  double largest_ = 0;
  std::map<Key, std::unique_ptr<Recording>> recordings_;
};

}  // namespace downpour
