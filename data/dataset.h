// Examples by number: what a worker's device reads its batches from.
//
//   auto data = OpenDataset(job.data.format, job.data.train);
//   data->ReadBatch(ids, inputs, labels);
//
// Shapes: inputs [ids.size(), input_width()] row-major, bytes as the files have them; labels [ids.size()].
// Threads: reading is const and may happen on several threads.
// Errors: NOT_FOUND, DATA_LOSS (truncated, trailing bytes, a damaged gzip stream) or INVALID_ARGUMENT (wrong magic,
//   counts that disagree), always with file and offset.
// Tests: tests/unit/data/dataset_test.cc, idx_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "job/job.h"
#include "runtime/prng.h"
#include "schema/guess.h"

namespace downpour {

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual uint64_t size() const = 0;
  virtual int64_t input_width() const = 0;
  virtual int32_t classes() const = 0;  // largest label + 1
  // Over every byte that training sees: two copies of one data set have the same, however they are compressed.
  virtual uint64_t fingerprint() const = 0;
  virtual std::vector<uint64_t> LabelCounts() const = 0;  // examples of each class. Cost: O(examples)

  // Errors: OUT_OF_RANGE for an id beyond size(); nothing is promised of the buffers then.
  virtual absl::Status ReadBatch(absl::Span<const uint64_t> ids, uint8_t* inputs, int32_t* labels) const = 0;
};

// Of a job's data, as errors and checkpoints name them; `eval`: null where it has none.
inline uint64_t FingerprintOf(const Dataset& train, const Dataset* eval) {
  return MixAll(train.fingerprint(), eval == nullptr ? 0 : eval->fingerprint());
}

// `label_counts`: the examples of each label. `outputs`: of the model. With one a squared error takes labels for
// numbers. Not known where fewer than 30 examples have another label than the most frequent one. Of classes also where
// there are fewer than 50 examples for each class that occurs, on the mean.
Guess GuessOf(absl::Span<const uint64_t> label_counts, Loss loss, int64_t outputs);

// `format` is the job file's data.format; "idx" is known so far.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const std::string& format, const FilePair& files);

}  // namespace downpour
