// BatchReader: the batch that a trainer is at, read from one of its sets; and what of a set is to be read ahead.
//
//   reader.ReadAhead(train.data(), plan, lease);     // its pieces are decoded meanwhile
//   status = reader.ReadNow(train, ids);             // of one that was read last: nothing is to be done
//   status = graph.LoadBatch(reader.batch().inputs(), ...);
//
// Errors: the data set's, with file and place. Then what was read before is gone.
// Threads: one; the set has others (Dataset::ReadAhead).
// Tests: tests/unit/model/batch_reader_test.cc.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "model/examples.h"
#include "runtime/plan.h"

namespace downpour {

class BatchReader {
 public:
  // While something else is done.
  absl::Status Read(const Examples& examples, absl::Span<const uint64_t> ids);
  // While nothing else is done.
  absl::Status ReadNow(const Examples& examples, absl::Span<const uint64_t> ids);
  // How long ReadNow took since the last call.
  std::chrono::nanoseconds TakeReading() { return std::exchange(reading_, {}); }

  // All examples of a lease, once: with data.order of blocks its first step needs records from all of its blocks.
  void ReadAhead(const Dataset& train, const Plan& plan, LeaseId lease);

  // Whether it is the batch that was read last.
  bool Has(const Examples& examples, absl::Span<const uint64_t> ids) const {
    return read_of_ == &examples && absl::MakeConstSpan(ids_) == ids;
  }
  ExampleBatch& batch() { return batch_; }
  double Weight() const;              // of all its examples; 0 where they have no weights
  std::vector<float> Labels() const;  // numbers of classes, or what is learned; of sets each output's
  // Of each of Labels(): of sets each output's label is a part of its example.
  std::vector<double> LabelWeights() const;

 private:
  ExampleBatch batch_;
  const Examples* read_of_ = nullptr;  // nothing: what was read is not whole
  std::vector<uint64_t> ids_;
  std::array<std::optional<LeaseId>, 2> ahead_;  // what ReadAhead had last
  std::chrono::nanoseconds reading_{};
};

}  // namespace downpour
